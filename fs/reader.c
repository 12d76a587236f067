/* fs/reader.c - what the inodes that are read only can do, of whatever kind: views, files of many tensors, containers under their own name (and ordinary files, which a look-up can hold). */
#include "fs.h"
#include "cached_int.h"

#include <string.h>

int pt_fs_reader_pin(struct pt_fs *fs, struct pt_fs_inode *i)
{
	switch (i->kind) {
	case PT_FS_VIEW:
		return pt_fs_view_pin(fs, i);
	case PT_FS_MANY:
		return pt_fs_many_open(fs, i);
	case PT_FS_FILE:
		return pt_fs_file_hold(fs, i);
	default:
		return pt_fs_sealed_pin(fs, i);
	}
}

void pt_fs_reader_unpin(struct pt_fs *fs, struct pt_fs_inode *i)
{
	if (i->kind == PT_FS_VIEW)
		pt_fs_view_unpin(fs, i);
	else if (i->kind == PT_FS_MANY)
		pt_fs_many_release(i);
	else if (i->kind == PT_FS_FILE)
		pt_fs_file_release(fs, i, false);
	else
		pt_fs_sealed_unpin(fs, i);
}

int64_t pt_fs_reader_read(struct pt_fs *fs, struct pt_fs_inode *i, void *buf, uint64_t len, uint64_t off)
{
	switch (i->kind) {
	case PT_FS_VIEW:
		return pt_fs_view_read(fs, i, buf, len, off);
	case PT_FS_MANY:
		return pt_fs_many_read(i, buf, len, off);
	default:
		return pt_fs_sealed_read(i, buf, len, off);
	}
}

uint64_t pt_fs_reader_size(struct pt_fs_inode *i)
{
	struct stat st = { 0 };

	if (i->kind == PT_FS_SEALED)
		return pt_fs_sealed_size(i);
	if (i->kind == PT_FS_MANY) {
		pt_fs_many_stat(i, &st);
		return (uint64_t)st.st_size;
	}
	return i->view.size;
}

uint64_t pt_fs_reader_align(const struct pt_fs_inode *i)
{
	return i->kind == PT_FS_VIEW ? pt_vfile_payload_off(i->view.file) % PT_BUFFER_BYTES : 0;
}

uint64_t pt_fs_reader_cut(struct pt_fs_inode *i, uint64_t off, uint64_t max)
{
	switch (i->kind) {
	case PT_FS_VIEW:
		return pt_vfile_cut(i->view.file, off, max);
	case PT_FS_SEALED:
		return pt_fs_sealed_cut(i, off, max);
	default:
		return pt_fs_many_read_end(i, off, max);
	}
}

static enum pt_format view_format(const struct pt_fs *fs, const struct pt_fs_inode *i)
{
	enum pt_format format = PT_FORMAT_COUNT;
	struct pt_request req;

	if (pt_tree_view_parse(i->dir, i->name, &req, &format) < 0)
		return PT_FORMAT_COUNT;
	return format == PT_FORMAT_COUNT ? fs->options->bare : format;
}

bool pt_fs_reader_maps(const struct pt_fs *fs, const struct pt_fs_inode *i)
{
	const char *dot;

	if (i->kind == PT_FS_SEALED)
		return pt_fs_sealed_format(i) == PT_FORMAT_SAFETENSORS;
	if (i->kind == PT_FS_MANY) {
		dot = strrchr(i->name, '.');
		return dot && strcmp(dot, ".safetensors") == 0;
	}
	return view_format(fs, i) == PT_FORMAT_SAFETENSORS;
}

void pt_fs_reader_key(const struct pt_fs *fs, const struct pt_fs_inode *i, struct pt_vcache_key *ret_key)
{
	memset(ret_key, 0, sizeof(*ret_key));
	ret_key->word[0] = (uint64_t)i->kind;
	ret_key->word[1] = i->node;
	ret_key->word[2] = i->stamp;
	if (i->kind == PT_FS_MANY)
		ret_key->word[3] = pt_fs_ino(i->node, i->dir, i->name);
	else if (i->kind == PT_FS_VIEW)
		ret_key->word[3] = (uint64_t)view_format(fs, i);
}

bool pt_fs_reader_large(const struct pt_fs *fs, struct pt_fs_inode *i)
{
	return pt_fs_reader_is(i) && i->stamp != PT_FS_STAMP_NONE && pt_fs_reader_size(i) >= fs->options->cache_min &&
	       pt_fs_reader_size(i);
}
