/* net/client.h - a client's session with a ptiod: requests go out, replies come back, and a lost connection is made again.
 *
 * One thread owns the connection; any thread submits calls, and completions run on the owner's thread, which must not be made to wait. Every call
 * ends exactly once, at the latest when its time is over, whatever the daemon or the network does. */
#ifndef PT_NET_CLIENT_H
#define PT_NET_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "net/auth.h"
#include "net/wire.h"

struct pt_net_client;

struct pt_net_options {
	const char *hosts;              /* "host:port[,host:port]": tried in turn */
	const struct pt_secret *secret; /* copied; len 0: none, which only an --insecure daemon takes */
	bool tls;
	int64_t timeout_ns;             /* of every call; 0: 30 s */
	/* The daemon does not know this session's pins (any more): called on the owner's thread, before any call goes out. Submit what restores them with
	 * PT_NET_FRONT. May be NULL. */
	void (*forgotten)(void *ctx);
	void *ctx;
};

enum {
	PT_NET_RETRY = 1,               /* may be sent again on a new connection: asking twice does no harm */
	PT_NET_ONCE = 2,                /* may be sent again to a daemon that remembers the session, which will not do it twice */
	PT_NET_FRONT = 4,               /* before all others that wait */
	PT_NET_ASIDE = 8                /* nobody waits for what it asks: it ends at once where there is no connection, when that is lost, and by pt_net_aside_stop() */
};

enum pt_net_state {
	PT_NET_IDLE,                    /* the submitter's */
	PT_NET_QUEUED,                  /* waits for a connection, or for credits */
	PT_NET_SENT                     /* on its way, or waiting for its reply */
};

struct pt_net_call {
	/* Set before pt_net_submit(); memory lives until done. */
	uint32_t flags;
	int64_t extra_ns;               /* that the daemon may take beyond the client's timeout (a watch) */
	const void *body;               /* of a Write */
	uint64_t body_len;
	const struct iovec *into;       /* where the reply's body goes, all of it */
	int into_count;
	uint64_t into_len;
	/* Each reply without an error; returns 0, or -errno to fail the call. May be NULL. */
	int (*reply)(struct pt_net_call *call, const Ptio__Wire__Reply *reply);
	/* The call is sent again: forget the replies that came. May be NULL. */
	void (*restart)(struct pt_net_call *call);
	/* The end; rc 0 or -errno with a sentence. */
	void (*done)(struct pt_net_call *call, int rc);
	struct pt_buf frame;            /* by pt_net_pack(); memory is reused and the submitter's to free */
	/* The owner's. */
	TAILQ_ENTRY(pt_net_call) link;
	enum pt_net_state state;
	uint64_t id;
	int64_t deadline_ns, sent_ns;
	bool sent_before;
	bool hurried;                   /* made when the daemon was known to be away */
	uint64_t attempts;              /* to connect, that had come to nothing by then */
};

struct pt_net_status {
	bool connected;
	char peer[300];                 /* as given in hosts */
	const char *transport;          /* "tcp", "tcp+tls" */
	uint64_t connects, calls, asides, bytes_in, bytes_out;
	char last_error[300];
};

/* Resolves the hosts and waits for a session with the first that answers. -EACCES: wrong secret; -EIO: nobody answers, or none of this version. */
int pt_net_client_open(const struct pt_net_options *options, struct pt_net_client **ret_client);
/* All calls have ended when it returns. NULL is fine. */
void pt_net_client_close(struct pt_net_client *c);
/* What the daemon said of itself and its store at the first connection, and limits at the latest. */
struct pt_net_session {
	bool meta_durable, data_durable, read_only;
	uint32_t ranges_max;
	uint32_t ops_max;               /* of one commit */
	uint32_t looks_max;             /* of one MetaLook; 0: none */
	bool marks;                     /* it tells them */
	bool watches;                   /* and with the answer to a watch, which is beside all else */
	uint64_t body_max;
	int64_t lease_ttl_ns;
	uint64_t connection;            /* grows with each one made */
	uint16_t rdma_port;             /* 0: none */
	uint8_t rdma_token[16];
	uint32_t pieces_max;            /* of an upload; 0: none */
	struct sockaddr_storage rdma_peer;      /* with that port */
	struct sockaddr_storage peer;   /* of the connection */
};
/* Which store it is, for a client that has made it one: a daemon of another one is refused from now on. */
void pt_net_store_known(struct pt_net_client *c, const struct pt_id *store);
void pt_net_session(struct pt_net_client *c, struct pt_net_session *ret_session);
void pt_net_status(struct pt_net_client *c, struct pt_net_status *ret_status);
int64_t pt_net_timeout_ns(const struct pt_net_client *c);
/* Gives the request an id and packs it into call->frame. -ENOMEM; -E2BIG above PT_WIRE_MESSAGE_MAX. */
int pt_net_pack(struct pt_net_client *c, struct pt_net_call *call, Ptio__Wire__Request *request);
void pt_net_submit(struct pt_net_client *c, struct pt_net_call *call);
/* PT_NET_ASIDE calls end now, and as soon as they are made. */
void pt_net_aside_stop(struct pt_net_client *c);
/* Whether the session's pins have certainly been kept until now (a renewal's time is not over). */
bool pt_net_lease_holds(struct pt_net_client *c);

#endif
