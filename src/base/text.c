/* base/text.c - see text.h. */
#include "base/text.h"

#include <stdint.h>

size_t pt_text_utf8_len(const char *s)
{
	const uint8_t *p = (const uint8_t *)s;
	uint32_t c = *p++, min;
	size_t len, i;

	if (c < 0x80)
		return c ? 1 : 0;
	if (c >= 0xc2 && c < 0xe0) {
		len = 2;
		c &= 0x1f;
		min = 0x80;
	} else if (c >= 0xe0 && c < 0xf0) {
		len = 3;
		c &= 0x0f;
		min = 0x800;
	} else if (c >= 0xf0 && c < 0xf5) {
		len = 4;
		c &= 0x07;
		min = 0x10000;
	} else {
		return 0;
	}
	for (i = 1; i < len; i++, p++) {
		if ((*p & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (*p & 0x3f);
	}
	return c < min || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : len;
}

bool pt_text_is_utf8(const char *s)
{
	size_t len;

	while ((len = pt_text_utf8_len(s)) > 0)
		s += len;
	return *s == '\0';
}

void pt_text_clean(char *s)
{
	size_t len;

	while (*s) {
		len = pt_text_utf8_len(s);
		/* C0, DEL, and C1, which some terminals obey. */
		if (len == 0 || (unsigned char)*s < 0x20 || *s == 0x7f) {
			*s++ = '?';
			continue;
		}
		if (len == 2 && (unsigned char)s[0] == 0xc2 && (unsigned char)s[1] < 0xa0)
			s[0] = s[1] = '?';
		s += len;
	}
}
