/* fs/pages.c - the bytes of a small view, which go into the kernel's cache before the answer to its first open, so that no READ follows.
 *
 * They are read and verified as for a READ. When that fails the open goes on without them, and the READ says why.
 *
 * The kernel locks each page that it is given, and an opener who reads has the pages that are being read for him locked until READ is answered. So that no thread of ours ever waits for
 * another one's answer there, pages are given only before any open of the node has been answered: nobody can read it then. Whoever opens it at the same time passes the same
 * gate, under the inode's lock: who comes first has the kernel take the bytes or leaves that to READ, and the others wait for no more than a copy. */
#include "fs.h"
#include "cached_int.h"

#include <fcntl.h>

#include "base/error.h"

#define SMALL ((uint64_t)32 << 10)      /* more takes longer page by page than by a READ, and may not be wanted whole */

static bool is_wanted(struct pt_fs_inode *i, const struct fuse_file_info *fi)
{
	return i->kind == PT_FS_VIEW && i->stamp != PT_FS_STAMP_NONE && (fi->flags & (O_ACCMODE | O_DIRECT)) == O_RDONLY && fi->keep_cache &&
	       pt_fs_reader_size(i) && pt_fs_reader_size(i) <= SMALL;
}

static void *read_whole(struct pt_fs *fs, struct pt_fs_inode *i, uint64_t size)
{
	void *data = pt_fs_reply_buffer(fs, (size_t)size);

	if (data && pt_fs_reader_read(fs, i, data, size, 0) == (int64_t)size)
		return data;
	pt_fail_clear();
	return NULL;
}

static bool give(struct pt_fs *fs, struct pt_fs_inode *i, void *data, uint64_t size)
{
	struct fuse_bufvec bytes = FUSE_BUFVEC_INIT((size_t)size);

	bytes.buf[0].mem = data;
	return fuse_lowlevel_notify_store(fs->session, pt_fs_inode_id(fs, i), 0, &bytes, 0) == 0;
}

void pt_fs_pages_give(struct pt_fs *fs, struct pt_fs_inode *i, bool first, const struct fuse_file_info *fi)
{
	uint64_t size = 0;
	void *data = NULL;
	bool given;

	if (first && is_wanted(i, fi)) {
		size = pt_fs_reader_size(i);
		data = read_whole(fs, i, size);
	}
	pthread_mutex_lock(&i->lock);
	given = data && !i->answered && give(fs, i, data, size);
	i->answered = true;
	pthread_mutex_unlock(&i->lock);
	if (given)
		atomic_fetch_add(&fs->counters.given_opens, 1);
}
