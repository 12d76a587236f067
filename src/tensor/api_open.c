/* tensor/api_open.c - the handle of the public API, and the buffers registered with it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "tensor/api_int.h"

static enum pt_verify verify_in(enum ptio_verify verify)
{
	return verify == PTIO_VERIFY_OFF ? PT_VERIFY_OFF : verify == PTIO_VERIFY_WHOLE ? PT_VERIFY_WHOLE : PT_VERIFY_TOUCH;
}

int ptio_open(const char *uri, const struct ptio_options *options, struct ptio **ret_p)
{
	struct pt_store_options so = { .read_only = false };
	struct pt_repo_options ro = { .verify = PT_VERIFY_TOUCH };
	struct pt_store *store = NULL;
	struct ptio *p;
	int rc;

	if (!uri || !ret_p)
		return pt_fail(EINVAL, "give the URI of a store, as in dir:/path or mem:1G");
	if (options) {
		so.read_only = options->read_only;
		so.create = options->create;
		so.force = options->force;
		ro.verify = verify_in(options->verify);
	}
	p = pt_calloc(1, sizeof(*p));
	if (!p)
		return pt_fail_nomem();
	rc = pt_store_open(uri, &so, &store);
	if (rc < 0)
		goto fail;
	rc = pt_repo_open(store, &ro, &p->repo);
	if (rc < 0)
		goto fail_store;
	pthread_mutex_init(&p->lock, NULL);
	*ret_p = p;
	return 0;
fail_store:
	pt_store_close(store);
fail:
	free(p);
	return rc;
}

void ptio_close(struct ptio *p)
{
	size_t i;

	if (!p)
		return;
	for (i = 0; i < p->region_count; i++)
		pt_data_buffer_unregister(&pt_repo_store(p->repo)->data, p->regions[i].addr);
	pt_repo_close(p->repo);
	pthread_mutex_destroy(&p->lock);
	free(p->regions);
	free(p);
}

const char *ptio_last_error(void)
{
	return pt_fail_sentence();
}

/* ---- regions ---- */

/* The first region that ends beyond addr. */
static size_t region_find_locked(const struct ptio *p, const uint8_t *addr)
{
	size_t at;

	for (at = 0; at < p->region_count; at++)
		if ((uintptr_t)p->regions[at].addr + p->regions[at].len > (uintptr_t)addr)
			break;
	return at;
}

int ptio_register_buffer(struct ptio *p, void *addr, uint64_t len)
{
	struct pt_region *grown;
	uint64_t end;
	size_t at;
	int rc;

	if (!p || !addr || !len || !pt_size_add((uintptr_t)addr, len, &end) || end > UINTPTR_MAX)
		return pt_fail(EINVAL, "a buffer needs an address and a length");
	pthread_mutex_lock(&p->lock);
	at = region_find_locked(p, addr);
	if (at < p->region_count && (uintptr_t)p->regions[at].addr < end) {
		rc = pt_fail(EEXIST, "the buffer overlaps one that is registered: unregister that first");
		goto out;
	}
	grown = pt_reallocarray(p->regions, p->region_count + 1, sizeof(*grown));
	if (!grown) {
		rc = pt_fail_nomem();
		goto out;
	}
	p->regions = grown;
	rc = pt_data_buffer_register(&pt_repo_store(p->repo)->data, addr, len);
	if (rc < 0)
		goto out;
	memmove(grown + at + 1, grown + at, (p->region_count - at) * sizeof(*grown));
	grown[at] = (struct pt_region){ .addr = addr, .len = len };
	p->region_count++;
	rc = 0;
out:
	pthread_mutex_unlock(&p->lock);
	return rc;
}

int ptio_unregister_buffer(struct ptio *p, void *addr)
{
	size_t at;
	int rc = 0;

	if (!p || !addr)
		return pt_fail(EINVAL, "give the address of a registered buffer");
	pthread_mutex_lock(&p->lock);
	at = region_find_locked(p, addr);
	if (at == p->region_count || p->regions[at].addr != addr) {
		rc = pt_fail(ENOENT, "no buffer is registered at this address");
	} else {
		pt_data_buffer_unregister(&pt_repo_store(p->repo)->data, addr);
		p->region_count--;
		memmove(p->regions + at, p->regions + at + 1, (p->region_count - at) * sizeof(*p->regions));
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

uint64_t pt_api_region_left(struct ptio *p, const void *addr)
{
	uint64_t left = 0;
	size_t at;

	if (!addr)
		return 0;
	pthread_mutex_lock(&p->lock);
	at = region_find_locked(p, addr);
	if (at < p->region_count && (uintptr_t)p->regions[at].addr <= (uintptr_t)addr)
		left = (uintptr_t)p->regions[at].addr + p->regions[at].len - (uintptr_t)addr;
	pthread_mutex_unlock(&p->lock);
	return left;
}
