/* store/meta_away.c - see meta_away.h. What a thread knows of its moment is the thread's own. */
#include "store/meta_away.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/data.h"
#include "store/meta_cache.h"

static __thread struct {
	struct pt_meta *m;              /* NULL: in none */
	uint32_t depth;
	bool known;                     /* mark */
	bool in_vain;                   /* it was asked for, and nobody could tell */
	int failed;                     /* -errno: there was no answer, so whoever waits for another one in this moment waits in vain again */
	char why[300];
	struct pt_meta_mark mark;
	uint64_t forgets;               /* by then: what this process has committed since is not in it */
} now;

static void forget(void)
{
	now.known = now.in_vain = false;
	now.failed = 0;
}

void pt_meta_moment_begin(struct pt_meta *m)
{
	if (!pt_meta_is_away(m) || (now.depth && now.m != m))
		return;
	now.m = m;
	if (now.depth++ == 0)
		forget();
}

void pt_meta_moment_end(struct pt_meta *m)
{
	if (now.m == m && now.depth && --now.depth == 0)
		now.m = NULL;
}

static bool is_in_moment(const struct pt_meta *m)
{
	return now.depth && now.m == m;
}

static void set_moment(struct pt_meta *m, const struct pt_meta_asking *asking)
{
	if (!is_in_moment(m))
		return;
	forget();
	now.known = asking->at.marked;
	now.mark = asking->at.mark;
	now.forgets = asking->forgets;
}

void pt_meta_moment_renew(struct pt_meta *m)
{
	if (is_in_moment(m))
		forget();
}

void pt_meta_away_ask(struct pt_meta *m, struct pt_meta_asking *asking)
{
	memset(asking, 0, sizeof(*asking));
	if (pt_meta_is_away(m))
		asking->forgets = pt_meta_cache_forgets(m->cache);
}

void pt_meta_away_answered(struct pt_meta *m, const struct pt_meta_asking *asking)
{
	if (!pt_meta_is_away(m))
		return;
	set_moment(m, asking);
	if (asking->at.marked)
		pt_meta_cache_told(m->cache, &asking->at.mark, false);
}

/* ---- asking for the mark: an answer is good for all who began before its question was sent. So a few questions are on their way at once, and who comes meanwhile shares the next one. ---- */

#define ASKS_AT_ONCE 2

struct ask {                            /* under the lock of asks */
	uint32_t askers;
	bool sent, answered;
	int rc;
	char why[300];
	struct pt_meta_asking asking;
};

struct pt_meta_asks {
	pthread_mutex_t lock;           /* all below, and every ask */
	pthread_cond_t changed;
	uint32_t under_way;
	struct ask *gathering;          /* not sent yet */
};

int pt_meta_asks_create(struct pt_meta *m)
{
	struct pt_meta_asks *s = pt_calloc(1, sizeof(*s));

	if (!s)
		return pt_fail_nomem();
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	m->asks = s;
	return 0;
}

void pt_meta_asks_free(struct pt_meta *m)
{
	if (!m->asks)
		return;
	pthread_cond_destroy(&m->asks->changed);
	pthread_mutex_destroy(&m->asks->lock);
	free(m->asks);
	m->asks = NULL;
}

static int ask_engine(struct pt_meta *m, struct pt_meta_asking *asking)
{
	struct pt_wait w;
	int rc;

	pt_meta_away_ask(m, asking);
	__atomic_add_fetch(&m->counters.queries, 1, __ATOMIC_RELAXED);
	pt_wait_init(&w);
	w.done.at = &asking->at;
	m->ops->ask_mark(m->h, &w.done);
	rc = pt_wait_finish(&w);
	if (rc < 0)
		asking->at.marked = false;
	return rc;
}

/* Called and returns with the lock held. */
static void ask_send(struct pt_meta *m, struct ask *a)
{
	struct pt_meta_asks *s = m->asks;
	int rc;

	a->sent = true;
	s->gathering = NULL;
	s->under_way++;
	pthread_mutex_unlock(&s->lock);
	rc = ask_engine(m, &a->asking);
	pthread_mutex_lock(&s->lock);
	s->under_way--;
	a->rc = rc;
	snprintf(a->why, sizeof(a->why), "%.299s", rc < 0 ? pt_fail_sentence() : "");
	a->answered = true;
	pthread_cond_broadcast(&s->changed);
}

static int ask_with_others(struct pt_meta *m, struct pt_meta_asking *ret_asking)
{
	struct pt_meta_asks *s = m->asks;
	struct ask *a;
	int rc;

	pthread_mutex_lock(&s->lock);
	if (!s->gathering)
		s->gathering = pt_calloc(1, sizeof(*s->gathering));
	a = s->gathering;
	if (!a) {
		pthread_mutex_unlock(&s->lock);
		return ask_engine(m, ret_asking);
	}
	if (a->askers++)
		__atomic_add_fetch(&m->counters.shared, 1, __ATOMIC_RELAXED);
	while (!a->sent && s->under_way >= ASKS_AT_ONCE)
		pthread_cond_wait(&s->changed, &s->lock);
	if (!a->sent)
		ask_send(m, a);
	while (!a->answered)
		pthread_cond_wait(&s->changed, &s->lock);
	*ret_asking = a->asking;
	rc = a->rc < 0 ? pt_fail(-a->rc, "%s", a->why) : 0;
	if (--a->askers == 0)
		free(a);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static bool ask_mark(struct pt_meta *m, struct pt_meta_mark *ret_mark)
{
	struct pt_meta_asking asking;
	int rc = ask_with_others(m, &asking);

	pt_meta_away_answered(m, &asking);
	if (is_in_moment(m)) {
		now.in_vain = !asking.at.marked;
		now.failed = rc == -EOPNOTSUPP ? 0 : rc;        /* a daemon that does not know the question has answered */
		snprintf(now.why, sizeof(now.why), "%.299s", rc < 0 ? pt_fail_sentence() : "");
	}
	if (rc < 0)
		pt_fail_clear();        /* whoever asks for more is told */
	if (asking.at.marked)
		*ret_mark = asking.at.mark;
	return asking.at.marked;
}

bool pt_meta_away_mark(struct pt_meta *m, struct pt_meta_mark *ret_mark)
{
	if (is_in_moment(m) && now.known && now.forgets == pt_meta_cache_forgets(m->cache)) {
		*ret_mark = now.mark;
		return true;
	}
	return !(is_in_moment(m) && now.in_vain) && ask_mark(m, ret_mark);
}

int pt_meta_away_mark_for(struct pt_meta *m, bool scan, const struct pt_meta_key *key, struct pt_meta_mark *ret_mark)
{
	if (!is_in_moment(m))
		return 0;
	if (!now.failed && pt_meta_cache_holds(m->cache, scan, key->data, key->len) && pt_meta_away_mark(m, ret_mark))
		return 1;
	return now.failed ? pt_fail(-now.failed, "%s", now.why) : 0;
}

int pt_meta_away_has(struct pt_meta *m, const struct pt_meta_look *look)
{
	struct pt_meta_cached *e;
	struct pt_meta_mark mark;
	int rc = pt_meta_is_away(m) ? pt_meta_away_mark_for(m, look->begins, &look->key, &mark) : 0;

	if (rc <= 0)
		return rc;
	e = pt_meta_cache_find(m->cache, &mark, look->begins, look->key.data, look->key.len);
	pt_meta_cached_unref(e);
	return e != NULL;
}

void pt_meta_away_keep(struct pt_meta *m, const struct pt_meta_asking *asking, bool scan, const struct pt_meta_key *key, const void *value, size_t value_len,
		       uint64_t version)
{
	if (pt_meta_is_away(m) && asking->at.marked)
		pt_meta_cache_keep_told(m->cache, &asking->at.mark, asking->forgets, scan, key->data, key->len, value, value_len, version);
}

void pt_meta_away_committed(struct pt_meta *m, const struct pt_meta_asking *asking, const struct pt_meta_op *ops, size_t count, uint64_t version)
{
	struct pt_meta_asking after = *asking;

	pt_meta_moment_renew(m);
	if (!ops)
		return;
	if (pt_meta_cache_committed(m->cache, ops, count, version))
		after.forgets++;        /* another commit between makes it more */
	if (!after.at.marked)
		return;
	set_moment(m, &after);
	pt_meta_cache_told(m->cache, &after.at.mark, true);
}

bool pt_meta_has_news(struct pt_meta *m)
{
	return pt_meta_is_away(m) && m->ops->has_news && m->ops->has_news(m->h);
}

int pt_meta_news(struct pt_meta *m, uint64_t seen, int64_t timeout_ns, struct pt_meta_mark *ret_mark)
{
	struct pt_meta_at at = { .marked = false };
	struct pt_wait w;
	int rc;

	pt_wait_init(&w);
	w.done.at = &at;
	m->ops->news(m->h, seen, timeout_ns, &w.done);
	rc = pt_wait_finish(&w);
	if (rc < 0)
		return rc;
	*ret_mark = at.mark;
	return 0;
}

void pt_meta_news_stop(struct pt_meta *m)
{
	m->ops->news_stop(m->h);
}

int pt_meta_pin(struct pt_meta *m, struct pt_data *d, const struct pt_blob_ref *refs, size_t count)
{
	struct pt_meta_asking asking;
	int rc;

	pt_meta_away_ask(m, &asking);
	rc = pt_data_pin_at(d, refs, count, &asking.at);
	if (count)
		pt_meta_away_answered(m, &asking);
	return rc;
}
