/* base/id.c - random identifiers and their hex form. */
#include "base/id.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"

int pt_id_random(struct pt_id *ret_id)
{
	struct pt_id id;
	size_t got = 0;
	ssize_t n;

	while (got < sizeof(id.b)) {
		n = getrandom(id.b + got, sizeof(id.b) - got, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return pt_fail(errno, "the kernel gave no random bytes: %m");
		got += (size_t)n;
	}
	*ret_id = id;
	return 0;
}

void pt_id_hex(const struct pt_id *id, char ret_hex[PT_ID_HEX_LEN + 1])
{
	static const char digits[] = "0123456789abcdef";
	size_t i;

	for (i = 0; i < sizeof(id->b); i++) {
		ret_hex[2 * i] = digits[id->b[i] >> 4];
		ret_hex[2 * i + 1] = digits[id->b[i] & 15];
	}
	ret_hex[PT_ID_HEX_LEN] = '\0';
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

int pt_id_parse(const char *s, struct pt_id *ret_id)
{
	struct pt_id id;
	size_t i;

	if (strnlen(s, PT_ID_HEX_LEN + 1) != PT_ID_HEX_LEN)
		goto bad;
	for (i = 0; i < sizeof(id.b); i++) {
		int high = hex_value(s[2 * i]), low = hex_value(s[2 * i + 1]);

		if (high < 0 || low < 0)
			goto bad;
		id.b[i] = (uint8_t)(high << 4 | low);
	}
	*ret_id = id;
	return 0;
bad:
	return pt_fail(EINVAL, "'%.64s' is no identifier: 32 lower-case hex digits are wanted", s);
}

int pt_id_compare(const struct pt_id *a, const struct pt_id *b)
{
	return memcmp(a->b, b->b, sizeof(a->b));
}

bool pt_id_is_zero(const struct pt_id *id)
{
	static const struct pt_id zero;

	return !memcmp(id->b, zero.b, sizeof(id->b));
}
