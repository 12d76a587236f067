/* fs/moments.c - requests on names and attributes, each in one moment of the store: of one that is away each asks once whether anything has changed, however much it looks up
 * (store/meta.h). Not those that wait for data. */
#include "fs.h"

#include "store/meta.h"

#define IN_A_MOMENT(request, parameters, arguments) \
	void pt_fs_##request##_at_once parameters \
	{ \
		struct pt_meta *meta = &pt_fs_of(req)->store->meta; \
		\
		pt_meta_moment_begin(meta); \
		pt_fs_##request arguments; \
		pt_meta_moment_end(meta); \
	}

IN_A_MOMENT(lookup, (fuse_req_t req, fuse_ino_t parent, const char *name), (req, parent, name))
IN_A_MOMENT(getattr, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi), (req, ino, fi))
IN_A_MOMENT(setattr, (fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi), (req, ino, attr, to_set, fi))
IN_A_MOMENT(readlink, (fuse_req_t req, fuse_ino_t ino), (req, ino))
IN_A_MOMENT(mknod, (fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev), (req, parent, name, mode, rdev))
IN_A_MOMENT(mkdir, (fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode), (req, parent, name, mode))
IN_A_MOMENT(unlink, (fuse_req_t req, fuse_ino_t parent, const char *name), (req, parent, name))
IN_A_MOMENT(rmdir, (fuse_req_t req, fuse_ino_t parent, const char *name), (req, parent, name))
IN_A_MOMENT(symlink, (fuse_req_t req, const char *target, fuse_ino_t parent, const char *name), (req, target, parent, name))
IN_A_MOMENT(open, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi), (req, ino, fi))
IN_A_MOMENT(create, (fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi), (req, parent, name, mode, fi))
IN_A_MOMENT(opendir, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi), (req, ino, fi))
IN_A_MOMENT(readdir, (fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi), (req, ino, size, off, fi))
IN_A_MOMENT(readdirplus, (fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi), (req, ino, size, off, fi))
IN_A_MOMENT(setxattr, (fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags), (req, ino, name, value, size, flags))
IN_A_MOMENT(getxattr, (fuse_req_t req, fuse_ino_t ino, const char *name, size_t size), (req, ino, name, size))
IN_A_MOMENT(listxattr, (fuse_req_t req, fuse_ino_t ino, size_t size), (req, ino, size))
IN_A_MOMENT(removexattr, (fuse_req_t req, fuse_ino_t ino, const char *name), (req, ino, name))
