/* net/client_reach.c - where a client looks for its daemon: connections lost and made again, at the addresses that the names of the hosts lead to by then. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"
#include "net/client_int.h"

#define BACKOFF_MIN_NS (PT_NS_PER_S / 20)
#define BACKOFF_MAX_NS PT_NS_PER_S

static void note_failure_locked(struct pt_net_client *c, int rc)
{
	c->last_rc = rc;
	snprintf(c->last_error, sizeof(c->last_error), "%s: %s", c->addrs[c->addr].text, pt_fail_sentence());
	c->attempts++;
	c->status.connected = false;
	pthread_cond_broadcast(&c->decided);
}

/* Begins to look the names up. Not before there was a session: whoever opens the client waits for its first answers. */
static void look_up(struct pt_net_client *c)
{
	bool established;

	pthread_mutex_lock(&c->lock);
	established = c->established;
	pthread_mutex_unlock(&c->lock);
	if (established && !c->resolve && pt_resolve_start(c->hosts, c->wake_fd, &c->resolve) < 0)
		c->resolve = NULL;
}

void pt_client_lost(struct pt_net_client *c, int rc)
{
	bool was_up = c->state == PT_CONN_UP;
	char why[512];

	snprintf(why, sizeof(why), "%s", pt_fail_sentence());
	pthread_mutex_lock(&c->lock);
	note_failure_locked(c, rc);
	pthread_mutex_unlock(&c->lock);
	pt_conn_close(c);
	pt_client_requeue(c, why);
	/* The same daemon first, at once; then each in turn; a pause after a round. In each round the names are looked up anew: a daemon may be back elsewhere. */
	if (was_up) {
		c->round = 0;
		c->retry_at_ns = pt_time_boot_ns();
		look_up(c);
		return;
	}
	c->round++;
	c->addr = (c->addr + 1) % c->addr_count;
	if (c->addr == 0)
		look_up(c);
	c->retry_at_ns = pt_time_boot_ns();
	if (c->round >= c->addr_count) {
		int64_t pause = BACKOFF_MIN_NS << (c->round / c->addr_count < 6 ? c->round / c->addr_count : 6);

		c->retry_at_ns += pause < BACKOFF_MAX_NS ? pause : BACKOFF_MAX_NS;
	}
}

void pt_client_take_addresses(struct pt_net_client *c)
{
	struct pt_addr *addrs = NULL, *old = c->addrs;
	size_t count = 0, at = 0;
	bool gone;

	if (!c->resolve || !pt_resolve_take(c->resolve, &addrs, &count))
		return;
	c->resolve = NULL;
	if (!addrs)
		return;
	while (at < count && (addrs[at].len != old[c->addr].len || memcmp(&addrs[at].sa, &old[c->addr].sa, addrs[at].len) != 0))
		at++;
	gone = at == count;
	pthread_mutex_lock(&c->lock);
	c->addrs = addrs;
	c->addr_count = count;
	c->addr = gone ? 0 : at;
	pthread_mutex_unlock(&c->lock);
	free(old);
	if (gone && c->state != PT_CONN_DOWN && c->state != PT_CONN_UP) {
		pt_client_lost(c, pt_fail(EIO, "its name leads to another address now"));
		c->addr = 0;
	}
	if (gone && c->state == PT_CONN_DOWN)
		c->retry_at_ns = pt_time_boot_ns();
}

void pt_client_up(struct pt_net_client *c, bool known, bool resumed)
{
	bool first;

	c->round = 0;
	if (!resumed)
		pt_client_end_unknown(c);
	pthread_mutex_lock(&c->lock);
	first = !c->established;
	c->established = true;
	c->in_vain = false;
	c->status.connected = true;
	c->status.connects++;
	snprintf(c->status.peer, sizeof(c->status.peer), "%s", c->addrs[c->addr].text);
	pthread_cond_broadcast(&c->decided);
	pthread_mutex_unlock(&c->lock);
	if (!known && !first && c->forgotten)
		c->forgotten(c->ctx);
}

void pt_client_connect(struct pt_net_client *c)
{
	int rc = pt_addr_connect(&c->addrs[c->addr], &c->stream.fd);

	if (rc < 0) {
		pt_client_lost(c, rc);
		return;
	}
	c->state = PT_CONN_CONNECTING;
	c->state_since_ns = pt_time_boot_ns();
}

int64_t pt_client_retry_at(struct pt_net_client *c)
{
	bool asked;

	pthread_mutex_lock(&c->lock);
	asked = c->in_vain && !TAILQ_EMPTY(&c->queue);
	pthread_mutex_unlock(&c->lock);
	return asked ? pt_client_sooner(c->retry_at_ns, c->state_since_ns + BACKOFF_MIN_NS) : c->retry_at_ns;
}
