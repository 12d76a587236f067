/* tree/place.h - what a whole path of the tree leads to, for programs that have no kernel to walk it for them. */
#ifndef PT_TREE_PLACE_H
#define PT_TREE_PLACE_H

#include "tree/named.h"

enum pt_place_kind {
	PT_PLACE_DIR,                   /* a directory: dir may be a layout of it, alias a tensor of a file */
	PT_PLACE_VIEW,
	PT_PLACE_FILE,                  /* an ordinary file, a tensor file as it is, or a symlink: file */
	PT_PLACE_MANY,                  /* pt_named_find finds it */
	PT_PLACE_INFO,                  /* .ptio.json */
	PT_PLACE_NOTHING                /* a plain name that is not there, in a directory that is */
};

struct pt_place {
	enum pt_place_kind kind;
	uint64_t node;                  /* of the directory; of the directory that it is in, for what is none */
	char alias[PT_KEY_MAX + 1];     /* "": the directory itself; else a tensor of a file, or the beginning of its name, below it */
	char dir[PT_TREE_DIR_MAX];      /* axes as spelled */
	char name[PT_PATH_COMPONENT_MAX + 1];   /* the last component, as spelled; "" for directories */
	struct pt_node file;
};

/* path: without the mountpoint. create: directories before the last component, and a key's, are made. -ENOENT: something on the way is not there; -ENOTDIR: it is no
 * directory, or a symlink (follow it and ask again); errors of pt_path_classify and pt_tree_dir_append. */
int pt_place_find(struct pt_models *models, struct pt_repo *repo, const char *path, bool create, struct pt_place *ret_place);
void pt_place_done(struct pt_place *place);

#endif
