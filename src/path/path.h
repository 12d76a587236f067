/* path/path.h - names in the tree and what they mean, both ways. Pure: no I/O, no state. The grammar is docs/PATHS.md.
 *
 *   axis      = tp=RofN | dp=R[ofN] | ep=R[ofN] | pp=R[ofN]      partition = writer=RofN
 *   options   = ,dim=D (tp, writer) | ,expert=E (ep) | ,stage=S (pp) | ,step=TAG (tp, writer) | ,split=balanced|chunk (tp, writer); any order, each once
 *   view      = full | shard | as_stored, alone or .FORMAT
 * Numbers are plain decimal without leading zeros; expert and stage may be negative. A name that begins like an axis (in any case) and is
 * none is an error, never a key. */
#ifndef PT_PATH_PATH_H
#define PT_PATH_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/format.h"
#include "layout/axis.h"

#define PT_PATH_COMPONENT_MAX 255       /* bytes of a name in the tree */
#define PT_PATH_STEP_MAX 64
#define PT_PATH_KEY_MAX 1024
#define PT_PATH_DIR_MAX 1024            /* spelled axis components of a path, with slashes */
#define PT_PATH_ENCODED_MAX 3072        /* a key as a path: each byte becomes three at most */
#define PT_PATH_TEXT_MAX 4096           /* a key as a path, its axes and a view */
#define PT_PATH_INFO_NAME ".ptio.json"
#define PT_PATH_CONTROL_NAME ".ptio"

enum pt_path_kind {
	PT_PATH_PLAIN,                  /* a key component, an ordinary file: component holds it decoded */
	PT_PATH_AXIS,
	PT_PATH_PARTITION,
	PT_PATH_VIEW,
	PT_PATH_INFO,                   /* .ptio.json */
	PT_PATH_ALL,                    /* .all.safetensors, .all.pt: format says which */
	PT_PATH_CONTROL                 /* .ptio */
};

enum pt_path_view { PT_PATH_FULL, PT_PATH_SHARD, PT_PATH_AS_STORED };

struct pt_path_name {
	enum pt_path_kind kind;
	char component[PT_PATH_COMPONENT_MAX + 1];
	struct pt_axis axis;            /* size 0, dim -1, has_id false where left out */
	struct pt_partition partition;  /* dim -1 where left out */
	enum pt_split split;
	char step[PT_PATH_STEP_MAX + 1];
	enum pt_path_view view;
	enum pt_format format;          /* PT_FORMAT_COUNT: none given */
};

/* What one name means. -EINVAL with a sentence: malformed axis, non-canonical percent-encoding, not UTF-8; -ENAMETOOLONG. */
int pt_path_classify(const char *name, struct pt_path_name *ret_name);
/* The inverse, in canonical spelling: options in the order dim, split, step, ids only where has_id. -ENAMETOOLONG; -EINVAL when
 * pt_path_classify would not take it, or as something else. */
int pt_path_name_format(const struct pt_path_name *name, char ret_text[PT_PATH_COMPONENT_MAX + 1]);

/* A key component to its one name in the tree. Reserved names get their first byte percent-encoded, % is always %25. -EINVAL: empty, or holds /;
 * -ENAMETOOLONG: over 255 bytes once encoded. */
int pt_path_component_encode(const char *component, char ret_name[PT_PATH_COMPONENT_MAX + 1]);
/* -EINVAL with a sentence when name is not what pt_path_component_encode gives for some component. */
int pt_path_component_decode(const char *name, char ret_component[PT_PATH_COMPONENT_MAX + 1]);
/* 1..1024 bytes of UTF-8, components not empty and at most 255 bytes once encoded. -EINVAL, -ENAMETOOLONG with a sentence. */
int pt_path_key_check(const char *key);
/* "a/full" -> "a/%66ull". Errors of pt_path_key_check. */
int pt_path_for_key(const char *key, char ret_path[PT_PATH_ENCODED_MAX + 1]);
/* And back. Strict: -EINVAL when a component is empty or has another meaning; -ENAMETOOLONG. */
int pt_path_to_key(const char *path, char ret_key[PT_PATH_KEY_MAX + 1]);

/* A path below the mountpoint. */
struct pt_path {
	char key[PT_PATH_KEY_MAX + 1];  /* decoded components joined by '/'; "" for the root */
	char dir[PT_PATH_DIR_MAX + 1];  /* axis and partition components as spelled, joined by '/' */
	bool has_layout;                /* any axis or partition */
	struct pt_layout layout;
	uint32_t axis_count;            /* in the order of the path */
	struct pt_axis axis[PT_AXIS_KINDS];
	bool has_partition;
	struct pt_partition partition;
	enum pt_split split;
	char step[PT_PATH_STEP_MAX + 1];
	bool has_view;
	enum pt_path_view view;
	enum pt_format format;          /* PT_FORMAT_COUNT: none given */
	bool info;                      /* ends in .ptio.json */
};

/* "llama/wq/dp=0/tp=1of4,dim=0/full.npy", or "" for the root. Empty components are skipped, as in any path. -EINVAL: malformed, a partition beside
 * axes; -ENOENT: an axis twice, or a name after an axis that is no axis, view or .ptio.json; -ENAMETOOLONG. */
int pt_path_parse(const char *path, struct pt_path *ret_path);
/* The canonical path of the same: axes in canonical order, split and step with tp or writer; dir does not count. Errors of
 * pt_path_name_format, pt_path_key_check, pt_path_parse. */
int pt_path_format(const struct pt_path *path, char ret_text[PT_PATH_TEXT_MAX + 1]);

#endif
