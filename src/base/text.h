/* base/text.h - text that comes from outside and is shown to people. */
#ifndef PT_BASE_TEXT_H
#define PT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the well-formed UTF-8 character that s, ended by NUL, begins with (no overlong forms, no surrogates, at most U+10FFFF); 0: none, or the end. */
size_t pt_text_utf8_len(const char *s);

/* All of s is well-formed UTF-8. */
bool pt_text_is_utf8(const char *s);

/* Makes s one printable line of UTF-8: control characters, and bytes of no well-formed character, become '?'. */
void pt_text_clean(char *s);

#endif
