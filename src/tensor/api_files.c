/* tensor/api_files.c - tensors to and from safetensors files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/id.h"
#include "base/io.h"
#include "base/size.h"
#include "tensor/api_int.h"

#define WINDOW (1u << 20)

static int copy_out(struct pt_vfile *f, int fd, const char *path)
{
	uint8_t *buf = pt_malloc(WINDOW);
	uint64_t off = 0;
	int64_t n = 0;
	int rc = 0;

	if (!buf)
		return pt_fail_nomem();
	while (!rc && off < pt_vfile_size(f)) {
		n = pt_vfile_read(f, buf, WINDOW, off);
		if (n < 0) {
			rc = (int)n;
			break;
		}
		rc = pt_io_pwrite(fd, buf, (size_t)n, off);
		if (rc < 0)
			rc = pt_fail(-rc, "writing %s failed (%s)", path, strerror(-rc));
		off += (uint64_t)n;
	}
	free(buf);
	if (!rc) {
		rc = pt_io_fsync(fd);
		if (rc < 0)
			rc = pt_fail(-rc, "writing %s failed (%s)", path, strerror(-rc));
	}
	return rc;
}

/* A new file takes the place of the old one when it is whole. */
static int replace_file(struct pt_vfile *f, const char *path)
{
	char hex[PT_ID_HEX_LEN + 1], *temp;
	struct pt_id id;
	int fd, rc;

	rc = pt_id_random(&id);
	if (rc < 0)
		return rc;
	pt_id_hex(&id, hex);
	temp = pt_asprintf("%s.%.8s", path, hex);
	if (!temp)
		return pt_fail_nomem();
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0) {
		rc = pt_fail(errno, "cannot make a file beside %s (%s)", path, strerror(errno));
		free(temp);
		return rc;
	}
	rc = copy_out(f, fd, path);
	close(fd);
	if (!rc && rename(temp, path) < 0)
		rc = pt_fail(errno, "cannot rename to %s (%s)", path, strerror(errno));
	if (rc)
		unlink(temp);
	free(temp);
	return rc;
}

int ptio_save_safetensors(struct ptio *p, const char *key, const struct ptio_read_target *target, const char *path)
{
	struct pt_request req;
	char *own = NULL, *c;
	struct pt_vfile *f;
	struct pt_view *v;
	int rc;

	rc = pt_api_request_read(target, &req);
	if (!rc)
		rc = pt_api_view_open(p, key, &req, &v);
	if (rc)
		return rc;
	if (!path) {
		own = pt_strdup(key);
		for (c = own; c && *c; c++)
			if (*c == '/')
				*c = '_';
		path = own;
	}
	rc = path ? pt_vfile_create(v, PT_FORMAT_SAFETENSORS, key, &f) : pt_fail_nomem();
	if (!rc) {
		rc = replace_file(f, path);
		pt_vfile_free(f);
	}
	free(own);
	pt_api_view_close(v);
	return rc;
}

int ptio_load_safetensors(struct ptio *p, const char *key, const char *path, struct ptio_tensor *ret_t)
{
	struct ptio_read_target whole = { .mode = PTIO_FULL };
	struct pt_request full = { .target = PT_TARGET_FULL };
	struct pt_api_source src = { .fd = -1 };
	int rc;

	if (!p || !path)
		return pt_fail(EINVAL, "an argument is NULL");
	src.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (src.fd < 0)
		return pt_fail(errno, "cannot open %s (%s)", path, strerror(errno));
	rc = pt_api_write(p, key, &src, &full, false);
	close(src.fd);
	return rc || !ret_t ? rc : ptio_get(p, key, &whole, ret_t);
}
