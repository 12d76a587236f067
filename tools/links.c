/* tools/links.c - symlinks on the way of a path, which a mount leaves to the kernel: policy/latest/wq/full.npy. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tools/cli.h"

#define LINKS_MAX 40            /* as the kernel */

/* The target of a symlink at the first len bytes of path, owned by the caller; NULL: it is something else. */
static char *target_at(struct cli *cli, const char *path, size_t len)
{
	char *head = pt_asprintf("%.*s", (int)len, path), *target = NULL;
	struct pt_path parsed;
	struct pt_node node;

	if (head && pt_path_parse(head, &parsed) == 0 && !parsed.has_layout && !parsed.has_view && parsed.key[0] &&
	    pt_node_by_key(cli->repo, parsed.key, false, &node) == 0) {
		if (node.kind == PT_NODE_SYMLINK && node.target)
			target = pt_strdup(node.target);
		pt_node_done(&node);
	}
	free(head);
	return target;
}

/* Appends components of text to a path that is empty or ends with a slash; "." and ".." are taken out. */
static char *walk(const char *start, char *to, const char *text)
{
	for (const char *end; *text; text = *end ? end + 1 : end) {
		size_t len;

		end = strchrnul(text, '/');
		len = (size_t)(end - text);
		if (len == 2 && memcmp(text, "..", 2) == 0) {
			if (to > start)
				to--;
			while (to > start && to[-1] != '/')
				to--;
		} else if (len > 0 && !(len == 1 && *text == '.')) {
			memcpy(to, text, len);
			to += len;
			*to++ = '/';
		}
	}
	return to;
}

/* Puts target in the place of the component that ends after len bytes of *path. */
static int follow_one(char **path, size_t len, const char *target)
{
	const char *rest = *path + len;
	char *out, *to;

	if (*target == '/')
		return pt_fail(EXDEV, "'%.*s' is a symbolic link to %s, and an absolute one leads somewhere only where the store is mounted", (int)len, *path,
			       target);
	out = pt_malloc(strlen(*path) + strlen(target) + 3);
	if (!out)
		return pt_fail_nomem();
	while (len > 0 && (*path)[len - 1] != '/')
		len--;
	memcpy(out, *path, len);
	to = walk(out, out + len, target);
	to = walk(out, to, rest);
	if (to > out)
		to--;                   /* the last slash */
	*to = '\0';
	free(*path);
	*path = out;
	return 0;
}

int cli_links_follow(struct cli *cli, const char *text, char **ret_path)
{
	char *path = pt_strdup(text), *target;
	int rc = path ? 0 : pt_fail_nomem(), left = LINKS_MAX;
	size_t len = 0;

	while (rc == 0) {
		len += strcspn(path + len, "/");
		if (!path[len])
			break;
		target = target_at(cli, path, len);
		len++;
		if (!target)
			continue;
		rc = left-- > 0 ? follow_one(&path, len - 1, target) : pt_fail(ELOOP, "more than %d symbolic links", LINKS_MAX);
		free(target);
		len = 0;
	}
	if (rc < 0) {
		free(path);
		return rc;
	}
	*ret_path = path;
	return 0;
}
