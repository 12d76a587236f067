/* tree/named.c - what named.h says. */
#include "tree/named.h"

#include <errno.h>

void pt_named_done(struct pt_named *n)
{
	pt_node_done(&n->node);
	pt_container_unref(n->c);
	n->c = NULL;
}

int pt_named_find(struct pt_models *models, struct pt_repo *repo, uint64_t node, const char *dir, const char *name, struct pt_named *ret_named)
{
	struct pt_named n = { .all = PT_FORMAT_COUNT };
	struct pt_path_name p;
	int rc;

	rc = pt_path_classify(name, &p);
	if (rc == 0)
		rc = pt_tree_dir_parse(dir, &n.base);
	if (rc < 0)
		return rc;
	if (p.kind == PT_PATH_ALL) {
		n.all = p.format;
		rc = pt_node_get(repo, node, &n.node);
	} else if (p.kind == PT_PATH_PLAIN) {
		rc = pt_node_lookup(repo, node, p.component, &n.node);
		if (rc == 0)
			rc = n.node.kind == PT_NODE_CONTAINER ? pt_models_container_try(models, &n.node, &n.c) : -ENOENT;
		if ((rc == 1 || (rc == 0 && !n.c->bundle)) && !pt_layout_find(&n.base.layout, PT_AXIS_TP))
			rc = -ENOENT;   /* the file itself will do; and one whose record is damaged can be removed or written again by that, and says so when it is opened */
		if (rc == 1)
			rc = -EIO;
	} else {
		rc = -ENOENT;
	}
	if (rc < 0) {
		pt_named_done(&n);
		return rc == -ESTALE ? -ENOENT : rc;
	}
	*ret_named = n;
	return 0;
}

int pt_named_make(struct pt_models *models, struct pt_repo *repo, uint64_t node, const struct pt_named *n, enum pt_split split, struct pt_many **ret_many)
{
	struct pt_request base = n->base;

	if (base.split == PT_SPLIT_UNSET)
		base.split = split;
	if (n->all != PT_FORMAT_COUNT)
		return pt_all_view(models, repo, node, &base, n->all, ret_many);
	return pt_rank_view(models, repo, node, n->c, &base, ret_many);
}
