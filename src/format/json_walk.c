/* format/json_walk.c - cuts a JSON object into its members; jansson reads what is inside them. */
#include "format/json_walk.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/error.h"

struct cursor {
	const char *what;
	const char *text;
	size_t len;
	size_t at;
};

static int wrong(const struct cursor *c, const char *expected)
{
	return pt_fail(EINVAL, "%s is not valid JSON: %s expected at byte %zu", c->what, expected, c->at);
}

static void skip_blanks(struct cursor *c)
{
	while (c->at < c->len && (c->text[c->at] == ' ' || c->text[c->at] == '\t' || c->text[c->at] == '\n' || c->text[c->at] == '\r'))
		c->at++;
}

/* The character at hand, -1 at the end. */
static int peek(const struct cursor *c)
{
	return c->at < c->len ? (unsigned char)c->text[c->at] : -1;
}

/* Past a string's closing quote; stands on the opening one. */
static int skip_string(struct cursor *c)
{
	for (c->at++; c->at < c->len; c->at++) {
		if (c->text[c->at] == '\\') {
			c->at++;
		} else if (c->text[c->at] == '"') {
			c->at++;
			return 0;
		}
	}
	c->at = c->len;
	return wrong(c, "a closing quote");
}

static int skip_value(struct cursor *c)
{
	size_t depth = 0, start = c->at;

	do {
		int ch = peek(c), rc;

		if (ch == '"') {
			rc = skip_string(c);
			if (rc)
				return rc;
			if (!depth)
				return 0;
			continue;
		}
		if (ch == '{' || ch == '[') {
			depth++;
		} else if (ch == '}' || ch == ']') {
			if (!depth)
				break;
			if (!--depth) {
				c->at++;
				return 0;
			}
		} else if (ch < 0 || (!depth && (ch == ',' || ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r'))) {
			break;
		}
		c->at++;
	} while (1);
	return depth || c->at == start ? wrong(c, depth ? "a closing bracket" : "a value") : 0;
}

int pt_json_walk(const char *what, const char *text, size_t len, pt_json_member_fn *member, void *ctx)
{
	struct cursor c = { .what = what, .text = text, .len = len };
	int rc;

	skip_blanks(&c);
	if (peek(&c) != '{')
		return wrong(&c, "an object's \"{\"");
	c.at++;
	skip_blanks(&c);
	if (peek(&c) != '}') {
		for (;;) {
			size_t key = c.at, key_len, value;

			if (peek(&c) != '"')
				return wrong(&c, "a name in quotes");
			rc = skip_string(&c);
			if (rc)
				return rc;
			key_len = c.at - key;
			skip_blanks(&c);
			if (peek(&c) != ':')
				return wrong(&c, "\":\"");
			c.at++;
			skip_blanks(&c);
			value = c.at;
			rc = skip_value(&c);
			if (!rc)
				rc = member(ctx, text + key, key_len, text + value, c.at - value);
			if (rc)
				return rc;
			skip_blanks(&c);
			if (peek(&c) == '}')
				break;
			if (peek(&c) != ',')
				return wrong(&c, "\",\" or \"}\"");
			c.at++;
			skip_blanks(&c);
		}
	}
	c.at++;
	skip_blanks(&c);
	return c.at == len ? 0 : wrong(&c, "the end");
}

int pt_json_string(const char *what, const char *text, size_t len, struct pt_buf *out)
{
	json_error_t error;
	json_t *string;
	size_t i;
	int rc = 0;

	for (i = 1; i + 1 < len; i++)
		if ((unsigned char)text[i] < 0x20 || (unsigned char)text[i] > 0x7e || text[i] == '\\' || text[i] == '"')
			break;
	if (len >= 2 && text[0] == '"' && text[len - 1] == '"' && i + 1 == len) {       /* plain, the usual case */
		pt_buf_append(out, text + 1, len - 2);
	} else {
		string = json_loadb(text, len, JSON_DECODE_ANY, &error);
		if (!string && json_error_code(&error) == json_error_out_of_memory)
			return pt_fail_nomem();
		if (json_is_string(string))
			pt_buf_append(out, json_string_value(string), json_string_length(string));
		else
			rc = pt_fail(EINVAL, "%s is not a valid JSON string%s%s", what, string ? "" : ": ", string ? "" : error.text);
		json_decref(string);
	}
	pt_buf_append_u8(out, 0);
	if (!rc && pt_buf_failed(out))
		rc = pt_fail_nomem();
	return rc;
}
