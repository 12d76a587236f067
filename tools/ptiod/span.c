/* tools/ptiod/span.c - the span that clients read by RDMA: an arena of verified copies of objects, loaded when a client first asks where one is.
 *
 * Invariants:
 * 1. A piece is given back, and its memory used again, only when ttl + margin have passed since it was last told to a client.
 * 2. An entry is told only when all of its bytes are loaded and every chunk matched its checksum. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/log.h"
#include "base/size.h"
#include "manifest/checked.h"
#include "manifest/key.h"
#include "manifest/record_small.h"
#include "net/rdma.h"
#include "net/rdma_device.h"
#include "store/arena.h"
#include "tools/ptiod/server.h"

#define LOAD_BYTES ((uint64_t)4 << 20)          /* of one read */

struct entry {
	struct pt_refmap_node node;             /* first */
	TAILQ_ENTRY(entry) used;                /* least recently told first */
	struct pt_arena_piece *piece;           /* NULL: an empty object */
	uint64_t bytes;
	int64_t told_ns;
	bool loading;
};

struct token {
	LIST_ENTRY(token) link;
	uint8_t bytes[PT_RDMA_TOKEN];
};

struct span {
	uint8_t *memory;
	uint64_t bytes;
	uint16_t port;
	struct sockaddr_storage address;        /* of the device that was named; family 0: none was */
	struct pt_rdma_server *rdma;
	pthread_mutex_t lock;                   /* all below */
	pthread_cond_t loaded;
	struct pt_arena *arena;
	struct pt_refmap entries;
	TAILQ_HEAD(, entry) order;
	uint64_t loads;
	LIST_HEAD(, token) tokens;
};

static bool admit(void *ctx, const uint8_t token[PT_RDMA_TOKEN])
{
	struct span *sp = ctx;
	struct token *t;
	bool known = false;

	pthread_mutex_lock(&sp->lock);
	LIST_FOREACH(t, &sp->tokens, link)
		known = known || memcmp(t->bytes, token, PT_RDMA_TOKEN) == 0;
	pthread_mutex_unlock(&sp->lock);
	return known;
}

void *span_memory(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (p != MAP_FAILED)
		return p;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, bytes, MADV_HUGEPAGE);       /* a wish */
	return p;
}

static void span_free(struct server *s, struct span *sp)
{
	struct entry *e;
	struct token *t;

	(void)s;
	pt_rdma_server_stop(sp->rdma);
	while ((e = TAILQ_FIRST(&sp->order))) {
		TAILQ_REMOVE(&sp->order, e, used);
		pt_refmap_remove(&sp->entries, &e->node);
		free(e);
	}
	while ((t = LIST_FIRST(&sp->tokens))) {
		LIST_REMOVE(t, link);
		free(t);
	}
	pt_refmap_done(&sp->entries);
	pt_arena_free(sp->arena);
	if (sp->memory)
		munmap(sp->memory, sp->bytes);
	pthread_cond_destroy(&sp->loaded);
	pthread_mutex_destroy(&sp->lock);
	free(sp);
}

/* The address of the device that was named, with the port that is listened on. */
static int named_address(const struct options *o, int family, uint16_t port, struct span *sp)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&sp->address;
	struct pt_rdma_where where;
	socklen_t len;
	int rc = pt_rdma_where_parse(o->rdma_device, o->rdma_port, o->rdma_gid, &where);

	if (rc < 0 || !*where.device)
		return rc;
	/* A GID of its own choice may be of another kind: clients are told the address. */
	rc = pt_rdma_where_address(&where, where.gid < 0 ? family : AF_UNSPEC, &sp->address, &len);
	if (rc == 0 && sp->address.ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr))
		rc = pt_fail(EINVAL, "GID %d of %s is a link-local address, which clients cannot reach it by; name another GID", where.gid, where.device);
	if (rc < 0)
		return rc;
	if (sp->address.ss_family == AF_INET)
		((struct sockaddr_in *)&sp->address)->sin_port = htons(port);
	else
		six->sin6_port = htons(port);
	return 0;
}

/* That is the device which listens there. */
static int check_device(const struct options *o, const struct span *sp)
{
	uint32_t port;
	const char *device = pt_rdma_server_device(sp->rdma, &port);

	if (!sp->address.ss_family || strcmp(device, o->rdma_device) == 0)
		return 0;
	return pt_fail(ENODEV, "the address of %s leads to %s; change the addresses of their interfaces, or name another GID", o->rdma_device, *device ? device : "no device");
}

int span_start(struct server *s, const struct pt_addr *addr, uint16_t port)
{
	struct span *sp = pt_calloc(1, sizeof(*sp));
	const struct sockaddr *sa = (const struct sockaddr *)&addr->sa;
	int rc;

	if (!sp)
		return pt_fail_nomem();
	TAILQ_INIT(&sp->order);
	LIST_INIT(&sp->tokens);
	sp->port = port;
	pthread_mutex_init(&sp->lock, NULL);
	pthread_cond_init(&sp->loaded, NULL);
	rc = pt_size_parse(s->options->arena, &sp->bytes);
	if (rc == 0 && (sp->bytes < PT_MIB || !pt_size_align(sp->bytes, 2 * PT_MIB, &sp->bytes)))
		rc = pt_fail(EINVAL, "an arena has 1M or more, not %s", s->options->arena);
	if (rc == 0)
		rc = pt_refmap_init(&sp->entries);
	if (rc == 0)
		rc = pt_arena_create(sp->bytes, &sp->arena);
	if (rc == 0 && !(sp->memory = span_memory(sp->bytes)))
		rc = pt_fail_nomem();
	if (rc == 0)
		rc = named_address(s->options, addr->sa.ss_family, port, sp);
	if (rc == 0 && sp->address.ss_family)
		sa = (const struct sockaddr *)&sp->address;
	if (rc == 0)
		rc = pt_rdma_server_start(sa, addr->len, sp->memory, sp->bytes, admit, sp, &sp->rdma);
	if (rc == 0)
		rc = check_device(s->options, sp);
	if (rc < 0) {
		span_free(s, sp);
		return rc;
	}
	s->span = sp;
	/* Without it uploads go by messages. */
	if (slab_start(s, sp->bytes) < 0)
		pt_log(PT_LOG_WARN, "no uploads by RDMA: %s", pt_fail_sentence());
	return 0;
}

void span_stop(struct server *s)
{
	if (s->span)
		span_free(s, s->span);
	s->span = NULL;
	slab_stop(s);
}

uint16_t span_port(const struct server *s)
{
	return s->span->port;
}

struct pt_rdma_server *span_rdma(const struct server *s)
{
	return s->span->rdma;
}

ProtobufCBinaryData span_address(const struct server *s)
{
	struct sockaddr_storage *sa = &s->span->address;

	if (sa->ss_family == AF_INET)
		return (ProtobufCBinaryData){ 4, (uint8_t *)&((struct sockaddr_in *)sa)->sin_addr };
	if (sa->ss_family == AF_INET6)
		return (ProtobufCBinaryData){ 16, (uint8_t *)&((struct sockaddr_in6 *)sa)->sin6_addr };
	return (ProtobufCBinaryData){ 0, NULL };
}

void span_say(const struct server *s, const struct pt_addr *addr)
{
	const struct sockaddr_storage *sa = s->span->address.ss_family ? &s->span->address : &addr->sa;
	char text[PT_ADDR_TEXT_MAX];
	const char *device;
	uint32_t port;

	pt_addr_format((const struct sockaddr *)sa, text, sizeof(text));
	device = pt_rdma_server_device(s->span->rdma, &port);
	if (*device)
		pt_log(PT_LOG_INFO, "listening on %s (rdma, %s port %u)", text, device, port);
	else
		pt_log(PT_LOG_INFO, "listening on %s (rdma)", text);
}

void span_admit(struct server *s, struct conn *c)
{
	struct token *t = s->span ? pt_calloc(1, sizeof(*t)) : NULL;

	if (!t)
		return;
	if (pt_random_bytes(t->bytes, sizeof(t->bytes)) < 0) {
		free(t);
		return;
	}
	memcpy(c->rdma_token, t->bytes, sizeof(t->bytes));
	pthread_mutex_lock(&s->span->lock);
	LIST_INSERT_HEAD(&s->span->tokens, t, link);
	pthread_mutex_unlock(&s->span->lock);
}

void span_drop(struct server *s, struct conn *c)
{
	struct token *t, *next;

	if (!s->span || c->state != CONN_CLOSED)
		return;
	pthread_mutex_lock(&s->span->lock);
	for (t = LIST_FIRST(&s->span->tokens); t; t = next) {
		next = LIST_NEXT(t, link);
		if (memcmp(t->bytes, c->rdma_token, sizeof(t->bytes)) == 0) {
			LIST_REMOVE(t, link);
			free(t);
		}
	}
	pthread_mutex_unlock(&s->span->lock);
	pt_rdma_server_drop(s->span->rdma, c->rdma_token);
}

void span_metrics(struct server *s, uint64_t *ret_bytes, uint64_t *ret_free, uint64_t *ret_objects, uint64_t *ret_loads)
{
	struct span *sp = s->span;

	pthread_mutex_lock(&sp->lock);
	*ret_bytes = sp->bytes;
	*ret_free = pt_arena_bytes_free(sp->arena);
	*ret_objects = sp->entries.count;
	*ret_loads = sp->loads;
	pthread_mutex_unlock(&sp->lock);
}

/* ---- loading ---- */

static void forget_locked(struct span *sp, struct entry *e)
{
	TAILQ_REMOVE(&sp->order, e, used);
	pt_refmap_remove(&sp->entries, &e->node);
	if (e->piece)
		pt_arena_release(sp->arena, e->piece);
	free(e);
}

/* Room for len bytes; objects that nobody can be reading make it. */
static int make_room_locked(struct server *s, uint64_t len, struct pt_arena_piece **ret_piece)
{
	int64_t before = pt_time_boot_ns() - s->options->lease_ttl_ns - s->options->lease_margin_ns;
	struct span *sp = s->span;
	struct entry *e, *next;
	int rc = pt_arena_alloc(sp->arena, len, ret_piece);

	for (e = TAILQ_FIRST(&sp->order); rc == -ENOSPC && e; e = next) {
		next = TAILQ_NEXT(e, used);
		if (e->loading || e->told_ns > before)
			continue;
		forget_locked(sp, e);
		rc = pt_arena_alloc(sp->arena, len, ret_piece);
	}
	return rc;
}

/* Where what the checksums are of begins: a native object's payload, all of a plain blob. */
static uint64_t hashed_off(const struct pt_blob_ref *ref, const uint8_t *data, uint64_t bytes)
{
	uint64_t off;

	if (ref->kind != PT_BLOB_TENSOR)
		return 0;
	off = bytes < 8 ? bytes : pt_get_le64(data);
	return bytes < 8 || off > bytes - 8 ? bytes : off + 8;
}

/* Every chunk of a native object, or of a file of tensors, against the checksums that the index keeps. One that was not committed yet has none (its upload was checked), nor
 * has an ordinary file. *ret_all: there was a checksum for each. */
static int verify(struct server *s, const struct pt_blob_ref *ref, const uint8_t *data, uint64_t bytes, bool *ret_all)
{
	uint64_t count_chunks = 0, version, payload = hashed_off(ref, data, bytes), off;
	struct pt_buf value = PT_BUF_INIT;
	struct pt_rkey key;
	const uint8_t *hashes;
	char hex[PT_ID_HEX_LEN + 1];
	int rc;

	pt_rkey_hashes(&key, &ref->id);
	rc = pt_meta_get(&s->store->meta, key.b, key.len, &value, &version);
	if (rc == 0 && version)
		rc = pt_record_hashes_decode(value.data, value.len, &hashes, &count_chunks);
	for (uint64_t i = 0; rc == 0 && version && i < count_chunks; i++) {
		off = payload + i * PT_HASH_CHUNK;
		if (off >= bytes || pt_hash64(data + off, pt_size_min(PT_HASH_CHUNK, bytes - off)) != pt_get_le64(hashes + i * 8)) {
			pt_id_hex(&ref->id, hex);
			rc = pt_fail(EIO, "chunk %llu of object %s does not match its checksum: the daemon's disk or memory is damaged; restore this tensor",
				     (unsigned long long)i, hex);
			pt_log(PT_LOG_ERROR, "%s", pt_fail_sentence());
			pt_data_doubt(&s->store->data, ref);
		}
	}
	*ret_all = count_chunks && count_chunks == (bytes - payload + PT_HASH_CHUNK - 1) / PT_HASH_CHUNK;
	pt_buf_done(&value);
	return rc;
}

/* What was verified, or found damaged, is told to who reads the same folder on this machine. */
static int load(struct server *s, const struct pt_blob_ref *ref, uint8_t *data, uint64_t bytes)
{
	uint64_t stamp = pt_data_stamp(&s->store->data, ref);
	bool all;
	int rc = 0;

	for (uint64_t at = 0; rc == 0 && at < bytes; at += LOAD_BYTES) {
		struct pt_data_range range = { *ref, at, pt_size_min(LOAD_BYTES, bytes - at), data + at };

		rc = pt_data_read(&s->store->data, &range, 1);
	}
	if (rc == 0)
		rc = verify(s, ref, data, bytes, &all);
	if (rc == 0 && all && stamp && bytes >= PT_CHECKED_KEPT_MIN && pt_data_stamp(&s->store->data, ref) == stamp)
		pt_data_prove(&s->store->data, ref, stamp);
	return rc;
}

/* A fresh entry, loaded; the lock is given up meanwhile. */
static int enter_locked(struct server *s, const struct pt_blob_ref *ref, uint64_t bytes, struct entry **ret_e)
{
	struct span *sp = s->span;
	struct entry *e = pt_calloc(1, sizeof(*e));
	int rc = e ? 0 : pt_fail_nomem();

	if (rc == 0 && bytes)
		rc = make_room_locked(s, bytes, &e->piece);
	if (rc < 0) {
		free(e);
		return rc;
	}
	e->node.ref = *ref;
	e->bytes = bytes;
	e->loading = true;
	pt_refmap_insert(&sp->entries, &e->node);
	TAILQ_INSERT_TAIL(&sp->order, e, used);
	pthread_mutex_unlock(&sp->lock);
	rc = e->piece ? load(s, ref, sp->memory + pt_arena_off(e->piece), bytes) : 0;
	pthread_mutex_lock(&sp->lock);
	e->loading = false;
	sp->loads++;
	pthread_cond_broadcast(&sp->loaded);
	if (rc < 0)
		forget_locked(sp, e);
	else
		*ret_e = e;
	return rc;
}

static int place(struct server *s, const struct pt_blob_ref *ref, uint64_t *ret_off, uint64_t *ret_bytes)
{
	struct span *sp = s->span;
	struct entry *e;
	uint64_t bytes;
	int rc = pt_data_stat(&s->store->data, ref, &bytes);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&sp->lock);
	while ((e = (struct entry *)pt_refmap_find(&sp->entries, ref)) && e->loading)
		pthread_cond_wait(&sp->loaded, &sp->lock);
	if (!e)
		rc = enter_locked(s, ref, bytes, &e);
	if (rc == 0) {
		e->told_ns = pt_time_boot_ns();
		TAILQ_REMOVE(&sp->order, e, used);
		TAILQ_INSERT_TAIL(&sp->order, e, used);
		*ret_off = e->piece ? pt_arena_off(e->piece) : 0;
		*ret_bytes = e->bytes;
	}
	pthread_mutex_unlock(&sp->lock);
	return rc;
}

void span_locate(struct server *s, struct job *job)
{
	const ProtobufCBinaryData *blobs = &job->request->locate->blobs;
	Ptio__Wire__Places places = PTIO__WIRE__PLACES__INIT;
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;
	uint64_t off[PT_WIRE_RANGES_MAX], bytes[PT_WIRE_RANGES_MAX];
	uint32_t n = pt_wire_blob_count(blobs);
	int rc = s->span ? 0 : pt_fail(EOPNOTSUPP, "the daemon does not serve by RDMA");

	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		struct pt_blob_ref ref;
		uint8_t kind;

		pt_wire_blob_get(blobs, i, &kind, &ref.id);
		ref.kind = (enum pt_blob_kind)kind;
		rc = place(s, &ref, &off[i], &bytes[i]);
	}
	if (rc < 0) {
		reply_error(job, rc);
		return;
	}
	places.n_off = places.n_bytes = n;
	places.off = off;
	places.bytes = bytes;
	places.lease_ttl_ns = (uint64_t)s->options->lease_ttl_ns;
	places.lease_margin_ns = (uint64_t)s->options->lease_margin_ns;
	reply.result_case = PTIO__WIRE__REPLY__RESULT_PLACES;
	reply.places = &places;
	reply_pack(job, &reply, 0);
}
