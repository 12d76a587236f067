/* tools/ptiod/upload.c - the blobs that a connection is uploading. They are dropped with it. On workers. */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "tools/ptiod/server.h"

static struct upload *find_locked(struct conn *c, uint64_t id)
{
	struct upload *u;

	LIST_FOREACH(u, &c->uploads, link)
		if (u->id == id)
			return u;
	return NULL;
}

static int no_upload(void)
{
	return pt_fail(EIO, "the upload was dropped, because the connection it was made on was lost; write the file again");
}

int upload_hold(struct conn *c, uint64_t id, struct upload **ret_u)
{
	struct upload *u;

	pthread_mutex_lock(&c->lock);
	u = find_locked(c, id);
	if (u)
		u->writers++;
	pthread_mutex_unlock(&c->lock);
	if (!u)
		return no_upload();
	*ret_u = u;
	return 0;
}

void upload_release(struct conn *c, struct upload *u)
{
	pthread_mutex_lock(&c->lock);
	u->writers--;
	pthread_mutex_unlock(&c->lock);
}

static void reply_done(struct job *job, int rc)
{
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;

	if (rc < 0)
		reply_error(job, rc);
	else
		reply_pack(job, &reply, 0);
}

void upload_create(struct server *s, struct job *job)
{
	const Ptio__Wire__Create *q = job->request->create;
	struct upload *u = pt_calloc(1, sizeof(*u));
	struct conn *c = job->conn;
	struct pt_blob_ref ref;
	bool room, known;
	uint8_t kind;
	int rc;

	if (!u) {
		reply_done(job, pt_fail_nomem());
		return;
	}
	pthread_mutex_lock(&c->lock);
	known = find_locked(c, q->upload) != NULL;
	room = c->upload_count < UPLOADS_MAX;
	if (room)
		c->upload_count++;
	pthread_mutex_unlock(&c->lock);
	pt_wire_blob_get(&q->blob, 0, &kind, &ref.id);
	ref.kind = (enum pt_blob_kind)kind;
	if (!room)
		rc = pt_fail(EMFILE, "one client may have %u uploads open at this daemon; close some files first", UPLOADS_MAX);
	else if (known)
		rc = pt_fail(EINVAL, "the client gave one number to two uploads");
	else if (__atomic_load_n(&s->draining, __ATOMIC_RELAXED))
		rc = pt_fail(EIO, "the daemon is stopping; try again when it is back");
	else
		rc = pt_data_create(&s->store->data, &ref, q->size_hint, &u->blob);
	u->id = q->upload;
	u->size_hint = q->size_hint;
	pthread_mutex_lock(&c->lock);
	if (rc == 0)
		LIST_INSERT_HEAD(&c->uploads, u, link);
	else if (room)
		c->upload_count--;
	pthread_mutex_unlock(&c->lock);
	if (rc < 0)
		free(u);
	reply_done(job, rc);
}

void upload_write(struct server *s, struct job *job)
{
	const Ptio__Wire__Write *q = job->request->write;
	struct conn *c = job->conn;
	struct upload *u;
	int rc;

	if (pt_hash64(job->body, job->body_len) != q->xxh3) {
		reply_done(job, pt_fail(EIO, "bytes of an upload were damaged on their way to the daemon; write the file again"));
		return;
	}
	rc = upload_hold(c, q->upload, &u);
	if (rc < 0) {
		reply_done(job, rc);
		return;
	}
	rc = pt_data_write(&s->store->data, u->blob, job->body, job->body_len, q->off);
	upload_release(c, u);
	count(&s->counters.written_bytes, job->body_len);
	reply_done(job, rc);
}

/* Takes it out of the list: it is this job's now. */
static int take(struct conn *c, uint64_t id, struct upload **ret_u)
{
	struct upload *u;
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	u = find_locked(c, id);
	if (!u)
		rc = no_upload();
	else if (u->writers)
		rc = pt_fail(EBUSY, "the client seals an upload that it is still writing");
	else {
		LIST_REMOVE(u, link);
		c->upload_count--;
	}
	pthread_mutex_unlock(&c->lock);
	if (rc == 0)
		*ret_u = u;
	return rc;
}

/* Each piece of it was compared with a checksum when it came, so what was hashed by the client is what is stored. */
static int seal(struct server *s, const Ptio__Wire__Seal *q, void *blob)
{
	if (q->hashed)
		pt_data_hashed(&s->store->data, blob);
	return pt_data_seal(&s->store->data, blob, q->bytes);
}

void upload_seal(struct server *s, struct job *job)
{
	struct upload *u = NULL;
	int rc = take(job->conn, job->request->seal->upload, &u);

	if (rc == 0) {
		rc = windows_close(s, job->conn, u);
		if (rc == 0)
			rc = seal(s, job->request->seal, u->blob);
		else
			pt_data_abort(&s->store->data, u->blob);
	}
	free(u);
	reply_done(job, rc);
}

void upload_abort(struct server *s, struct job *job)
{
	struct upload *u = NULL;
	int rc = take(job->conn, job->request->abort->upload, &u);

	if (rc == 0) {
		(void)windows_close(s, job->conn, u);
		pt_data_abort(&s->store->data, u->blob);
	}
	free(u);
	reply_done(job, rc);
}

/* The connection is closed and none of its jobs runs. */
void uploads_drop(struct server *s, struct conn *c)
{
	struct upload *u;

	while ((u = LIST_FIRST(&c->uploads))) {
		LIST_REMOVE(u, link);
		(void)windows_close(s, c, u);
		pt_data_abort(&s->store->data, u->blob);
		free(u);
	}
	pthread_mutex_lock(&c->lock);           /* who counts may look */
	c->upload_count = 0;
	pthread_mutex_unlock(&c->lock);
}
