/* base/id.h - random 128-bit identifiers (objects, sets, uploads). */
#ifndef PT_BASE_ID_H
#define PT_BASE_ID_H

#include <stdbool.h>
#include <stdint.h>

#define PT_ID_HEX_LEN 32

struct pt_id {
	uint8_t b[16];
};

/* From the kernel's random source. 0 or -errno. */
int pt_id_random(struct pt_id *ret_id);
/* 32 lower-case hex digits and a NUL. */
void pt_id_hex(const struct pt_id *id, char ret_hex[PT_ID_HEX_LEN + 1]);
/* -EINVAL unless s is exactly 32 lower-case hex digits. */
int pt_id_parse(const char *s, struct pt_id *ret_id);
int pt_id_compare(const struct pt_id *a, const struct pt_id *b);
bool pt_id_is_zero(const struct pt_id *id);

#endif
