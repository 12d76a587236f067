/* fs/alias.c - tensors of containers as if they were keys (tree/alias.h), as inodes.
 *
 * An alias is a directory that is not listed; below it are the axes and views of the tensor, and the aliases whose names go on. Its inodes hang on the node of a
 * directory, their dir text is byte 1, the tensor's name below that directory, byte 1 and then the spelled axes. Writing below it makes the key first, which from then
 * on hides it; the container stays as it is. */
#include "fs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "tree/alias.h"

#define MARK '\1'

bool pt_fs_alias_split(const char *dir, char ret_name[PT_KEY_MAX + 1], const char **ret_axes)
{
	const char *end;

	if (dir[0] != MARK)
		return false;
	end = strchr(dir + 1, MARK);
	if (!end || end - dir - 1 > PT_KEY_MAX)
		return false;
	memcpy(ret_name, dir + 1, (size_t)(end - dir - 1));
	ret_name[end - dir - 1] = '\0';
	*ret_axes = end + 1;
	return true;
}

bool pt_fs_alias_itself(const char *dir)
{
	return pt_fs_alias_is(dir) && dir[strlen(dir) - 1] == MARK;
}

int pt_fs_alias_lookup(struct pt_fs *fs, struct pt_fs_inode *parent, const char *component, struct pt_fs_inode **ret_inode)
{
	char name[PT_KEY_MAX + 1], dir[PT_KEY_MAX + 3];
	const char *axes = "";
	struct pt_alias a;
	size_t len = 0;
	int rc;

	if (pt_fs_alias_is(parent->dir)) {
		if (!pt_fs_alias_split(parent->dir, name, &axes) || axes[0])
			return -ENOENT;
		len = strlen(name);
		name[len++] = '/';
	}
	if (len + strlen(component) > PT_KEY_MAX)
		return -ENOENT;
	strcpy(name + len, component);
	rc = pt_alias_find(fs->models, fs->repo, parent->node, name, false, &a);
	if (rc < 0)
		return rc;
	snprintf(dir, sizeof(dir), "%c%s%c", MARK, a.name, MARK);
	rc = pt_fs_inode_get(fs, PT_FS_AXIS, a.dir->node, dir, "", 0, ret_inode);
	pt_alias_done(&a);
	return rc;
}

int pt_fs_alias_key(struct pt_fs *fs, uint64_t node, const char *dir, uint64_t *ret_node, const char **ret_axes)
{
	char name[PT_KEY_MAX + 1];

	if (!pt_fs_alias_split(dir, name, ret_axes))
		return -EINVAL;
	return pt_alias_key(fs->repo, node, name, ret_node);
}

int pt_fs_alias_dir(struct pt_fs *fs, struct pt_fs_inode *dir, struct pt_fs_inode **ret_dir)
{
	const char *axes;
	uint64_t key;
	int rc;

	if (!pt_fs_alias_is(dir->dir)) {
		*ret_dir = pt_fs_inode_ref(fs, dir);
		return 0;
	}
	rc = pt_fs_alias_key(fs, dir->node, dir->dir, &key, &axes);
	return rc < 0 ? rc : pt_fs_inode_get(fs, axes[0] ? PT_FS_AXIS : PT_FS_DIR, key, axes, "", 0, ret_dir);
}

int pt_fs_alias_path(const char *dir, struct pt_buf *out)
{
	char name[PT_KEY_MAX + 1], encoded[PT_PATH_ENCODED_MAX + 1];
	const char *axes;

	if (!pt_fs_alias_split(dir, name, &axes))
		return -ENOENT;
	pt_buf_printf(out, "/%s%s%s", pt_path_for_key(name, encoded) < 0 ? name : encoded, axes[0] ? "/" : "", axes);
	return 0;
}
