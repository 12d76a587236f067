/* format/json_walk.h - the members of one JSON object, found without building a tree of the whole text. Internal to format/.
 *
 * A header of 100 MB would make a tree of gigabytes; so only one member at a time is given to the JSON library. Pure. */
#ifndef PT_FORMAT_JSON_WALK_H
#define PT_FORMAT_JSON_WALK_H

#include <stddef.h>

#include "base/buf.h"

/* One member: the texts of its key (with quotes) and value. Both are only cut out; whoever takes them lets the library read
 * them. Returns 0 or -errno, which ends the walk. */
typedef int pt_json_member_fn(void *ctx, const char *key, size_t key_len, const char *value, size_t value_len);

/* -EINVAL with a sentence that begins with `what` when text is not one JSON object, or what member() returned. */
int pt_json_walk(const char *what, const char *text, size_t len, pt_json_member_fn *member, void *ctx);

/* Appends the string that text (with quotes) spells, and a NUL. -EINVAL: no valid JSON string, or one with U+0000; -ENOMEM. */
int pt_json_string(const char *what, const char *text, size_t len, struct pt_buf *out);

#endif
