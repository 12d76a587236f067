/* tree/tree.h - the tree that a mount shows: names below a key, and what a directory lists.
 *
 * A directory of the mount is a namespace node and, below it, axis or partition components as the caller spelled them ("dp=0/tp=1of4"; "" at the
 * node itself). Axis directories are not nodes: they always exist. Names are encoded tree names (path/path.h). */
#ifndef PT_TREE_TREE_H
#define PT_TREE_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "manifest/repo.h"
#include "path/path.h"
#include "tensor/tensor.h"

#define PT_TREE_DIR_MAX (PT_PATH_DIR_MAX + 1)    /* the spelled components with their slashes, and NUL */

/* Adds an axis or partition component to base (a request without a target). -ENOENT: the kind, or a step, is there already; -EINVAL with a
 * sentence: a partition together with axes. */
int pt_tree_dir_append(struct pt_request *base, const struct pt_path_name *component);
/* Parses spelled components into a request; "" gives an empty one. Errors as above, and -EINVAL for components that are none. */
int pt_tree_dir_parse(const char *dir, struct pt_request *ret_base);
/* A whole view name in a spelled directory to its request; format PT_FORMAT_COUNT when the name has none. -EINVAL: not a view name. */
int pt_tree_view_parse(const char *dir, const char *name, struct pt_request *ret_req, enum pt_format *ret_format);

/* Ordinary files may be made inside axis directories, too (loaders and savers put their temporary files beside the target). They are children of
 * the node whose component begins with byte 1, then the spelled directory with 2 for slashes, then 1 and the decoded name. -ENAMETOOLONG. For dir ""
 * the component is the decoded name itself. */
int pt_tree_component(const char *dir, const char *decoded, char ret_component[PT_NAME_MAX + 1]);
/* The inverse: false when component is an ordinary one (then dir is "" and the name the component). */
bool pt_tree_component_split(const char *component, char ret_dir[PT_TREE_DIR_MAX], const char **ret_decoded);

/* The one name under which a stored object is listed (docs/PATHS.md "Listing"): axis components, then "full" or "shard"; "dp=0of2/tp=1of4,dim=0/shard". */
#define PT_TREE_LISTED_MAX (2 * PT_LAYOUT_TEXT_MAX + 64)
int pt_tree_object_path(const struct pt_manifest *m, uint32_t object, char ret_path[PT_TREE_LISTED_MAX]);
/* Which visible object of m this request is the listed name of. False: the request is a computed view. Any format counts. */
bool pt_tree_listed(const struct pt_manifest *m, const struct pt_request *req, uint32_t *ret_object);

/* kind PT_NODE_FILE with id 0: a view; PT_NODE_DIR with id 0: an axis directory. Returns 0 to go on, 1 to stop. */
typedef int pt_tree_list_fn(void *ctx, const char *name, uint64_t id, enum pt_node_kind kind);
/* What the directory lists, each name once: children, then stored layouts. formats: each view also with each format's suffix (list=all). */
int pt_tree_list(struct pt_repo *repo, uint64_t node, const char *dir, bool formats, pt_tree_list_fn *fn, void *ctx);
/* What an axis directory shows from its model directory beside that: nothing if the node is a tensor, whose layouts list what is stored of it, and nothing twice. */
int pt_tree_rank_list(struct pt_repo *repo, uint64_t node, const char *dir, pt_tree_list_fn *fn, void *ctx);
/* The same in pieces, for directories of any size. First children, in byte order of component, `max` looked at in each call: from `after` ("" at first) on, and `after` is
 * moved. 1: there may be more, 0: that was all. What is made or removed meanwhile may be listed or not; every other child is listed once. */
int pt_tree_list_children(struct pt_repo *repo, uint64_t node, const char *dir, uint32_t max, char after[PT_NAME_MAX + 1], pt_tree_list_fn *fn, void *ctx);
/* Then the rest: stored layouts, and axis directories that lead to files of their own. */
int pt_tree_list_layouts(struct pt_repo *repo, uint64_t node, const char *dir, bool formats, pt_tree_list_fn *fn, void *ctx);

#endif
