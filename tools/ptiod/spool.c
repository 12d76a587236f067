/* tools/ptiod/spool.c - replies of many frames: in memory while they are short, then in a file without a name, so that neither a large index nor a slow
 * reader of it costs memory or keeps a worker. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "tools/ptiod/server.h"

#define MEMORY_MAX ((uint64_t)4 << 20)

void spool_init(struct spool *sp, struct job *job)
{
	*sp = (struct spool){ .job = job, .fd = -1 };
}

static int to_file(struct spool *sp)
{
	struct pt_buf *frame = &sp->job->out->frame;
	const char *dir = getenv("TMPDIR");
	int rc;

	if (sp->fd < 0) {
		dir = dir && *dir ? dir : "/tmp";
		sp->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (sp->fd < 0)
			return pt_fail(errno, "cannot make a temporary file in %s: %s", dir, strerror(errno));
	}
	rc = pt_io_pwrite(sp->fd, frame->data, frame->len, sp->bytes);
	if (rc < 0)
		return pt_fail(-rc, "cannot write to a temporary file: %s", strerror(-rc));
	sp->bytes += frame->len;
	pt_buf_reset(frame);
	return 0;
}

void spool_frame(struct spool *sp, Ptio__Wire__Reply *reply)
{
	struct pt_buf *frame = &sp->job->out->frame;

	if (sp->rc < 0)
		return;
	reply->id = sp->job->request->id;
	pt_wire_pack(&reply->base, 0, frame);
	if (pt_buf_failed(frame))
		sp->rc = pt_fail_nomem();
	else if (frame->len > MEMORY_MAX)
		sp->rc = to_file(sp);
}

void spool_finish(struct spool *sp, int rc)
{
	struct out *o = sp->job->out;

	if (rc == 0)
		rc = sp->rc;
	/* The frames left in memory go behind those in the file. */
	if (rc == 0 && sp->fd >= 0)
		rc = to_file(sp);
	if (rc < 0) {
		if (sp->fd >= 0)
			close(sp->fd);
		reply_error(sp->job, rc);
		return;
	}
	o->fd = sp->fd;
	o->file_bytes = sp->bytes;
	o->bytes = o->frame.len;
}
