/* net/client_int.h - what the parts of a client share: client.c (opening, the loop), client_call.c (calls), client_reach.c (connections lost and made) and
 * client_conn.c (one connection's bytes). */
#ifndef PT_NET_CLIENT_INT_H
#define PT_NET_CLIENT_INT_H

#include <pthread.h>

#include "net/addr.h"
#include "net/client.h"
#include "net/resolve.h"
#include "net/stream.h"
#include "net/tls.h"

#define PT_NS_PER_S INT64_C(1000000000)

TAILQ_HEAD(pt_net_calls, pt_net_call);

/* DOWN -> CONNECTING -> HELLO -> PROOF -> UP; from each back to DOWN. */
enum pt_conn_state { PT_CONN_DOWN, PT_CONN_CONNECTING, PT_CONN_HELLO, PT_CONN_PROOF, PT_CONN_UP };

struct pt_net_client {
	/* Fixed after open. */
	struct pt_secret secret;
	struct pt_tls *tls;
	char *hosts;                    /* as given */
	int64_t timeout_ns;
	struct pt_id session_id;
	void (*forgotten)(void *ctx);
	void *ctx;
	pthread_t thread;
	int wake_fd;

	pthread_mutex_t lock;           /* from here to `store_id` */
	pthread_cond_t decided;         /* attempts or established changed */
	struct pt_net_calls queue;
	uint64_t next_id;
	bool closing;
	bool aside_stopped;
	bool established;               /* a session came about */
	bool in_vain;                   /* a call has waited out its time since there was a session */
	uint64_t attempts;              /* connections that came to nothing */
	size_t addr_count;
	int last_rc;
	struct pt_net_session session;
	struct pt_net_status status;
	uint64_t bytes_in, bytes_out;    /* atomic; the status's own are not used */
	char last_error[1024];
	struct pt_id store_id;          /* zero: not known yet */

	int64_t lease_until_ns;         /* atomic */

	/* The owner's. */
	struct pt_net_calls sent;
	uint32_t sent_calls;
	uint64_t sent_bytes;
	enum pt_conn_state state;
	struct pt_stream stream;
	struct pt_addr *addrs;          /* of the hosts, as the resolver said at the latest; never none */
	size_t addr;                    /* index of the one in use or to be tried */
	struct pt_resolve *resolve;     /* a look-up under way */
	uint32_t round;                 /* failures in a row */
	int64_t retry_at_ns, state_since_ns, heard_ns;
	struct pt_auth auth;
	uint64_t epoch;
	uint32_t calls_max;
	uint64_t bytes_max;
	int64_t ttl_ns, margin_ns, renewed_ns, proof_ns;
	struct pt_net_call renew;
	bool renew_out;
	/* Outgoing: handshake bytes, or one call's frame and body. */
	struct pt_buf hello;
	struct pt_net_call *out;
	uint64_t out_done;
	/* Incoming: header, message, body. */
	uint8_t in_header[PT_WIRE_HEADER];
	size_t in_header_got;
	struct pt_wire_header in;
	uint8_t *in_message;
	uint32_t in_room;
	uint32_t in_message_got;
	struct pt_net_call *in_call;    /* whose body comes; NULL: nobody's any more */
	bool in_body;
	uint64_t in_body_got;
};

/* client.c */
void pt_client_wake(struct pt_net_client *c);                   /* any thread */

static inline int64_t pt_client_sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* client_call.c. All on the owner's thread. */
void pt_client_end(struct pt_net_client *c, struct pt_net_call *call, int rc);          /* a call in `sent` */
struct pt_net_call *pt_client_find(struct pt_net_client *c, uint64_t id);
struct pt_net_call *pt_client_next(struct pt_net_client *c);    /* the next that may go out, moved to `sent`; NULL */
/* The connection is lost: what was sent goes back to the queue's front, in order, if it may be sent again; else it ends. */
void pt_client_requeue(struct pt_net_client *c, const char *why);
/* Ends calls that may have been done already, when nobody remembers whether they were. */
void pt_client_end_unknown(struct pt_net_client *c);
/* Ends those whose time is over. False: the connection must go too. */
void pt_client_end_late_queued(struct pt_net_client *c, int64_t now);
bool pt_client_end_late_sent(struct pt_net_client *c, int64_t now);
void pt_client_end_aside(struct pt_net_client *c);              /* those of pt_net_aside_stop() */
void pt_client_end_all(struct pt_net_client *c);                /* when the owner has ended */

/* client_reach.c. All on the owner's thread. */
void pt_client_connect(struct pt_net_client *c);
/* The connection, or the attempt at one, has come to nothing (rc); the thread's sentence says why. */
void pt_client_lost(struct pt_net_client *c, int rc);
/* When the next attempt is due. Who asks although the daemon is known to be away is worth one before its time. */
int64_t pt_client_retry_at(struct pt_net_client *c);
/* What a look-up that has ended found is used from now on. An attempt at an address that is none any more ends. */
void pt_client_take_addresses(struct pt_net_client *c);
/* A session is up. known: the daemon has its pins; resumed: and knows which calls were done. */
void pt_client_up(struct pt_net_client *c, bool known, bool resumed);

/* client_conn.c */
int pt_conn_connected(struct pt_net_client *c);
/* Moves bytes until the socket would block. -errno: the connection is of no use any more. */
int pt_conn_out(struct pt_net_client *c);
int pt_conn_in(struct pt_net_client *c);
/* Closes it and forgets half-done frames. */
void pt_conn_close(struct pt_net_client *c);

#endif
