/* tools/ptiod/server.h - what the files of the daemon share.
 *
 * One thread, the loop, owns all connections, sessions and sockets; it never waits for anything but events. Workers call the store, which may wait.
 * A job is one request on its way: the loop makes it, a worker fills in its reply, the loop sends that. While a worker has a job nobody else touches
 * it, but for `conn->closed`. */
#ifndef PTIOD_SERVER_H
#define PTIOD_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "net/addr.h"
#include "net/auth.h"
#include "net/rdma.h"
#include "net/stream.h"
#include "net/tls.h"
#include "net/wire.h"
#include "store/refmap.h"
#include "store/store.h"

#define NS_PER_S INT64_C(1000000000)
#define CALLS_MAX 64u                           /* requests of a connection that may be under way */
#define BYTES_MAX ((uint64_t)16 << 20)          /* of bodies, both ways */
#define RUNNING_MAX 8u                          /* of its jobs that workers have at once */
#define WATCHES_MAX 4u                          /* of its watches, which are beside these */
#define UPLOADS_MAX 1024u                       /* open ones of a connection */
#define UPLOAD_PIECES 4u                        /* that one may write to by RDMA at once */
#define PINS_MAX 1048576u                       /* of a session */
#define SESSIONS_MAX 4096u
#define HELLO_NS (10 * NS_PER_S)                /* to prove who one is */
#define STRANGERS_MAX 256u                      /* connections that have not */
#define REMEMBERED 256u                         /* answers to changes, kept for a session */

struct server;
struct conn;
struct session;

struct options {
	const char *store, *config, *secret_file, *log_file;
	const char *listen[16];
	size_t listen_count;
	const char *http;
	bool insecure, tls, read_only, no_create, help, version;
	int64_t lease_ttl_ns, lease_margin_ns, drain_ns, gc_ns, snapshots_ns;
	uint32_t workers, clients_max;
	const char *rdma;               /* "auto", "yes", "no" */
	const char *rdma_device, *rdma_port, *rdma_gid; /* NULL: not named */
	const char *arena, *reserve;    /* sizes */
};

/* ---- replies on their way (out.c) ---- */

/* Bytes from memory, then pieces of memory, then a part of a file. */
struct out {
	TAILQ_ENTRY(out) link;
	struct pt_buf frame;
	struct iovec *pieces;           /* the body */
	uint32_t piece_count;
	uint8_t *buffer;                /* that pieces point into; owned */
	void **maps;                    /* that pieces point into; given back to the store */
	uint32_t map_count;
	int fd;                         /* -1: none; closed at the end */
	uint64_t file_bytes;
	uint64_t bytes;                 /* of memory, frame and body */
	uint64_t done;                  /* bytes that are out */
	uint32_t piece;                 /* first that is not */
};
TAILQ_HEAD(outs, out);

struct out *out_create(void);
void out_free(struct server *s, struct out *o);
/* 1: all of it is out, 0: would block, -errno: the connection is lost. */
int out_send(struct out *o, struct pt_stream *stream, uint64_t *ret_moved);

/* ---- jobs (jobs.c) ---- */

enum job_kind { JOB_REQUEST, JOB_DROP_UPLOADS, JOB_DROP_PINS };

struct job {
	TAILQ_ENTRY(job) link;
	enum job_kind kind;
	struct conn *conn;
	struct session *session;
	struct pt_wire_arena arena;
	Ptio__Wire__Request *request;   /* in the arena */
	uint8_t *body;                  /* owned */
	uint64_t body_len;
	uint64_t cost_in, cost_out;     /* bytes that it holds, and that its reply will */
	struct out *out;                /* the reply */
	int rc;
	struct pt_blob_ref *refs;       /* JOB_DROP_PINS; owned */
	size_t ref_count;
	int64_t watch_until_ns;         /* watch.c */
};
TAILQ_HEAD(jobs, job);

struct job *job_create(struct conn *conn, enum job_kind kind);
void job_free(struct server *s, struct job *job);
int workers_start(struct server *s);
void workers_stop(struct server *s);
/* To a worker; and back to the loop, from any thread. */
void job_submit(struct server *s, struct job *job);
void job_return(struct server *s, struct job *job);

/* ---- what workers do (ops_meta.c, ops_data.c): fill in job->out ---- */
void job_run(struct server *s, struct job *job);
/* The reply of a job, packed with a body of body_len bytes to follow. */
void reply_pack(struct job *job, Ptio__Wire__Reply *reply, uint64_t body_len);
void reply_error(struct job *job, int rc);
void op_meta(struct server *s, struct job *job);
void op_data(struct server *s, struct job *job);

/* ---- at which mark replies hold (mark.c); from any thread ---- */
struct mark {
	bool known;
	uint8_t instance[PT_WIRE_INSTANCE];
	uint64_t version;
	Ptio__Wire__Mark wire;
};

/* Whether the store has marks at all. */
bool mark_there(struct server *s);
/* Of this moment, without waiting: false where the index would have to be asked. */
bool mark_known(struct server *s, struct mark *ret_mark);
/* Of this moment. */
void mark_take(struct server *s, struct mark *ret_mark);
/* The reply holds at the mark; it points to it from here on. */
void mark_put(struct mark *mark, Ptio__Wire__Reply *reply);
/* The same, for what was read since the mark was taken, if nobody has committed meanwhile. */
void mark_put_held(struct server *s, struct mark *mark, Ptio__Wire__Reply *reply);

/* Replies of several frames, kept in memory up to a bound and then in a file without a name (spool.c). */
struct spool {
	struct job *job;
	int fd;                         /* -1: in job->out->frame */
	uint64_t bytes;                 /* in the file */
	int rc;
};
void spool_init(struct spool *sp, struct job *job);
void spool_frame(struct spool *sp, Ptio__Wire__Reply *reply);
/* The reply is ready, or it is an error. */
void spool_finish(struct spool *sp, int rc);

/* ---- uploads of a connection (upload.c); called by workers ---- */
enum piece_state { PIECE_NONE, PIECE_OPEN, PIECE_BUSY };

/* Memory that the client may write to (window.c). */
struct piece {
	enum piece_state state;         /* under the connection's lock; the rest is the job's that made it BUSY */
	struct pt_arena_piece *memory;
	uint64_t bytes;
	struct pt_rdma_window window;
};

struct upload {
	LIST_ENTRY(upload) link;
	uint64_t id;
	void *blob;
	uint64_t size_hint;             /* 0: unknown */
	uint64_t landed;                /* bytes that came by RDMA; under the connection's lock, as is writers */
	uint32_t writers;               /* jobs that write to it now */
	struct piece pieces[UPLOAD_PIECES];
};
LIST_HEAD(uploads, upload);

/* Keeps it from being sealed until it is released. -EIO: it is not there. */
int upload_hold(struct conn *c, uint64_t id, struct upload **ret_u);
void upload_release(struct conn *c, struct upload *u);

void upload_create(struct server *s, struct job *job);
void upload_write(struct server *s, struct job *job);
void upload_seal(struct server *s, struct job *job);
void upload_abort(struct server *s, struct job *job);
void uploads_drop(struct server *s, struct conn *c);

/* ---- the span that clients read by RDMA (span.c) ---- */
struct span;

/* Starts what --rdma asks for; s->span stays NULL where there is nothing to start. */
int span_start(struct server *s, const struct pt_addr *addr, uint16_t port);
/* Address in network order, where the device was named, else empty. */
ProtobufCBinaryData span_address(const struct server *s);
void span_say(const struct server *s, const struct pt_addr *addr);      /* in the log: where it listens */
void span_stop(struct server *s);
uint16_t span_port(const struct server *s);
/* Memory on huge pages where there are; bytes: whole MiB, even. NULL: there is none. Given back by munmap. */
void *span_memory(uint64_t bytes);
struct pt_rdma_server *span_rdma(const struct server *s);
/* By workers: op locate. */
void span_locate(struct server *s, struct job *job);
/* On the loop: a token for a connection, and its end. */
void span_admit(struct server *s, struct conn *c);
void span_drop(struct server *s, struct conn *c);
void span_metrics(struct server *s, uint64_t *ret_bytes, uint64_t *ret_free, uint64_t *ret_objects, uint64_t *ret_loads);

/* ---- memory that clients write uploads to by RDMA (window.c) ---- */
struct slab;

int slab_start(struct server *s, uint64_t span_bytes);
void slab_stop(struct server *s);       /* all uploads have ended */
void slab_metrics(struct server *s, uint64_t *ret_bytes, uint64_t *ret_free, uint64_t *ret_open);
uint32_t windows_max(const struct server *s);
/* By workers: op window, op landed. */
void window_open(struct server *s, struct job *job);
void window_landed(struct server *s, struct job *job);
/* All of an upload that nobody else holds. -EIO: one could not be, so somebody may still write there. */
int windows_close(struct server *s, struct conn *c, struct upload *u);

/* ---- sessions (session.c); on the loop but where it says so ---- */
struct remembered {
	uint64_t id;                    /* 0: free */
	struct pt_buf frame;
};

struct session {
	LIST_ENTRY(session) link;
	struct pt_id id;
	struct conn *conn;              /* NULL: nobody is connected */
	struct conn *waiting;           /* comes next, when conn is gone */
	uint64_t epoch;
	int64_t granted_ns;             /* the last grant of its lease */
	uint32_t busy;                  /* ordered jobs that run now, which may change its pins: 0 or 1 */
	bool left;
	struct pt_refmap pins;          /* changed by one job at a time, or by the loop while none runs */
	uint64_t pin_count;             /* atomic: of pins */
	struct remembered remembered[REMEMBERED];
	uint32_t next_remembered;
};
LIST_HEAD(sessions, session);

/* The session of that id, made if there is none; NULL without memory or beyond SESSIONS_MAX. ret_resumed: it was there. */
struct session *session_get(struct server *s, const struct pt_id *id, bool *ret_resumed);
void session_renew(struct session *ses);
void session_remember(struct session *ses, uint64_t id, const struct pt_buf *frame);
const struct pt_buf *session_recall(const struct session *ses, uint64_t id);
/* Lets leases run out; returns when to look again. */
int64_t sessions_tick(struct server *s, int64_t now);
void sessions_done(struct server *s);
/* By workers. */
void session_pin(struct server *s, struct job *job);
void session_unpin(struct server *s, struct job *job);
uint64_t session_pin_count(const struct session *ses);

/* ---- connections (conn.c) ---- */
enum conn_state { CONN_HELLO, CONN_PROOF, CONN_PARKED, CONN_OPEN, CONN_CLOSED };

struct conn {
	TAILQ_ENTRY(conn) link;
	struct server *server;
	bool http;
	enum conn_state state;
	bool closed;                    /* atomic: state is CONN_CLOSED */
	bool registered;                /* in epoll */
	uint32_t events;                /* asked of epoll */
	struct pt_stream stream;
	char peer[64];
	int64_t since_ns;
	struct pt_auth auth;
	struct session *session;
	uint8_t rdma_token[16];         /* zeros: none */
	/* In. */
	uint8_t header_bytes[PT_WIRE_HEADER];
	size_t header_got;
	struct pt_wire_header header;
	uint8_t *message;
	uint8_t *body;
	uint64_t message_got, body_got;
	/* Jobs: waiting here, at workers, and what they hold. */
	struct jobs queue;
	uint32_t queued, running;
	uint32_t watching;              /* jobs that are watches, which wait for something else than workers: not in `running` */
	bool ordered;                   /* a job of those that go one by one runs */
	uint64_t bytes_in, bytes_out;
	/* Out. */
	struct outs outs;
	bool goodbye;                   /* close when all is out */
	pthread_mutex_t lock;           /* uploads, upload_count */
	struct uploads uploads;
	uint32_t upload_count;
	uint64_t slab_bytes;            /* that pieces of its uploads have; the slab's lock */
};
TAILQ_HEAD(conns, conn);

struct conn *conn_create(struct server *s, int fd, const char *peer, bool http);
void conn_events(struct conn *c, uint32_t events);
void conn_free(struct conn *c);
/* Whether more may be read from it now. */
bool conn_may_read(const struct conn *c);
/* Stops it; freed when its jobs are back. */
void conn_close(struct conn *c, const char *why);
void conn_tick(struct conn *c, int64_t now);
/* A job of it is back: its reply goes out. Frees the job. */
void conn_job_back(struct conn *c, struct job *job);
/* A parked connection's turn has come. */
void conn_unpark(struct conn *c);
void conn_pump(struct conn *c);
void conn_enqueue(struct conn *c, struct out *o);
/* frame.c: bytes in. -errno: of no use any more. */
int conn_read(struct conn *c);
/* handshake.c: one message before the session; and the end of it. */
int conn_handshake(struct conn *c);
void conn_welcome(struct conn *c, bool resumed);
void http_read(struct conn *c);

/* ---- watch.c ---- */
int watch_start(struct server *s);
void watch_stop(struct server *s);
void watch_add(struct server *s, struct job *job);      /* by a worker; the job comes back when it is over */
void watch_drop(struct server *s, struct conn *c);      /* on the loop: those of a connection that is closed come back now */

/* ---- counters: relaxed atomics, only ever growing ---- */
struct counters {
	uint64_t connections, refused, auth_failures, requests, errors, bytes_in, bytes_out, read_bytes, written_bytes, landed_bytes, pins_expired, http_requests;
	uint64_t collections, collected_objects, collected_bytes;
};

static inline void count(uint64_t *counter, uint64_t n)
{
	__atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
}

static inline uint64_t counted(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

struct server {
	struct options *options;
	struct pt_store *store;
	struct pt_secret secret;
	struct pt_tls *tls;
	int epoll_fd, wake_fd, signal_fd;
	struct span *span;              /* NULL: no RDMA */
	struct slab *slab;              /* NULL: no uploads by RDMA */
	int listen_fds[16], http_fd;
	size_t listen_count;
	struct conns conns;
	uint32_t conn_count, stranger_count, http_count;
	uint32_t jobs_out;              /* at workers or the watcher */
	struct sessions sessions;
	uint32_t session_count;
	struct pt_id store_id;          /* zero: not known yet */
	struct pt_id instance;          /* of this run */
	uint64_t next_epoch;
	struct conns dead;              /* freed after the round of events that they ended in */
	bool again;                     /* a connection has decrypted bytes left */
	bool draining;
	int64_t drain_until_ns;
	struct counters counters;

	pthread_mutex_t work_lock;      /* todo, stopping */
	pthread_cond_t work_cond;
	struct jobs todo;
	bool stopping;
	pthread_t workers[64];
	uint32_t worker_count;

	pthread_mutex_t back_lock;      /* back */
	struct jobs back;

	pthread_mutex_t watch_lock;     /* watching, watch_stopping, watch_version */
	pthread_cond_t watch_cond;
	struct jobs watching;
	uint64_t watch_version;         /* of which those that waited have been told */
	bool watch_stopping, watch_started;
	pthread_t watch_thread;

	struct pt_snapshots *snapshots; /* or NULL */
	struct pt_repo *repo;           /* the collector's; owns the store once it is there */
	pthread_mutex_t collect_lock;   /* collect_stopping */
	pthread_cond_t collect_cond;
	bool collect_stopping, collect_started;
	pthread_t collect_thread;
};

/* collect.c */
int collect_start(struct server *s);
void collect_stop(struct server *s);

/* loop.c */
int server_listen(struct server *s);
int server_run(struct server *s);
/* settings.c: options from the command line and a file. 0, or 2 after saying what is wrong. */
int settings_read(int argc, char **argv, struct options *o);
void settings_usage(void);
/* notify.c: a line to the service manager, if there is one. */
void notify(const char *line);
/* http.c */
void http_metrics(struct server *s, struct pt_buf *out);

#endif
