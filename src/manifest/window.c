/* manifest/window.c - the pool of windows: a few are kept, more are made when many threads read or write at once. */
#include "manifest/window.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"

#define WINDOW_ALIGN 4096

void pt_window_pool_init(struct pt_window_pool *pool, struct pt_data *data)
{
	pool->data = data;
	pthread_mutex_init(&pool->lock, NULL);
	pool->free_count = 0;
}

static void window_free(struct pt_window_pool *pool, void *window)
{
	pt_data_buffer_unregister(pool->data, window);
	free(window);
}

void pt_window_pool_done(struct pt_window_pool *pool)
{
	while (pool->free_count)
		window_free(pool, pool->free[--pool->free_count]);
	pthread_mutex_destroy(&pool->lock);
}

void *pt_window_get(struct pt_window_pool *pool)
{
	void *window = NULL, *probe;

	pthread_mutex_lock(&pool->lock);
	if (pool->free_count)
		window = pool->free[--pool->free_count];
	pthread_mutex_unlock(&pool->lock);
	if (window)
		return window;
	/* Aligned memory does not come from pt_malloc; this lets tests make it fail all the same. */
	probe = pt_malloc(1);
	if (!probe)
		return NULL;
	free(probe);
	if (posix_memalign(&window, WINDOW_ALIGN, PT_WINDOW_BYTES))
		return NULL;
	/* Unregistered it is only slower. */
	(void)pt_data_buffer_register(pool->data, window, PT_WINDOW_BYTES);
	return window;
}

void pt_window_put(struct pt_window_pool *pool, void *window)
{
	if (!window)
		return;
	pthread_mutex_lock(&pool->lock);
	if (pool->free_count < PT_WINDOW_KEPT) {
		pool->free[pool->free_count++] = window;
		window = NULL;
	}
	pthread_mutex_unlock(&pool->lock);
	if (window)
		window_free(pool, window);
}
