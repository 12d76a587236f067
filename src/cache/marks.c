/* cache/marks.c - the table of marks: a few places a key may be in, of which the one used longest ago is taken. */
#include "cache/marks.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"

#define SETS 512
#define WAYS 8

struct mark {
	uint64_t used;                  /* serial; 0: free */
	struct pt_vcache_key key;
	struct pt_file_state state;
};

struct pt_marks {
	pthread_mutex_t lock;           /* the rest */
	uint64_t serial;
	struct mark mark[SETS][WAYS];
};

int pt_marks_create(struct pt_marks **ret_marks)
{
	struct pt_marks *m = pt_calloc(1, sizeof(*m));

	if (!m)
		return pt_fail_nomem();
	pthread_mutex_init(&m->lock, NULL);
	*ret_marks = m;
	return 0;
}

void pt_marks_free(struct pt_marks *m)
{
	if (!m)
		return;
	pthread_mutex_destroy(&m->lock);
	free(m);
}

/* The key's place, or NULL. */
static struct mark *find_locked(struct pt_marks *m, const struct pt_vcache_key *key, struct mark **ret_oldest)
{
	struct mark *set = m->mark[pt_hash64(key, sizeof(*key)) % SETS], *oldest = set;
	int i;

	for (i = 0; i < WAYS; i++) {
		if (set[i].used && memcmp(&set[i].key, key, sizeof(*key)) == 0)
			return &set[i];
		if (set[i].used < oldest->used)
			oldest = &set[i];
	}
	if (ret_oldest)
		*ret_oldest = oldest;
	return NULL;
}

void pt_marks_put(struct pt_marks *m, const struct pt_vcache_key *key, const struct pt_file_state *state)
{
	struct mark *at, *oldest = NULL;

	pthread_mutex_lock(&m->lock);
	at = find_locked(m, key, &oldest);
	at = at ? at : oldest;
	*at = (struct mark){ .used = ++m->serial, .key = *key, .state = *state };
	pthread_mutex_unlock(&m->lock);
}

bool pt_marks_has(struct pt_marks *m, const struct pt_vcache_key *key)
{
	bool found;

	pthread_mutex_lock(&m->lock);
	found = find_locked(m, key, NULL) != NULL;
	pthread_mutex_unlock(&m->lock);
	return found;
}

bool pt_marks_match(struct pt_marks *m, const struct pt_vcache_key *key, const struct pt_file_state *state)
{
	struct mark *at;
	bool match;

	pthread_mutex_lock(&m->lock);
	at = find_locked(m, key, NULL);
	match = at && pt_file_state_same(&at->state, state);
	if (at)
		at->used = match ? ++m->serial : 0;
	pthread_mutex_unlock(&m->lock);
	return match;
}
