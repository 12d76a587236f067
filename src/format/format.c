/* format/format.c - names of the formats, and recognising a file by its first bytes. Assumes nothing; owns nothing. */
#include <string.h>

#include "base/buf.h"
#include "format/format.h"

static const char *const names[PT_FORMAT_COUNT] = {
	[PT_FORMAT_PT] = "pt",
	[PT_FORMAT_SAFETENSORS] = "safetensors",
	[PT_FORMAT_NPY] = "npy",
	[PT_FORMAT_BIN] = "bin",
	[PT_FORMAT_OBJ] = "obj",
};

const char *pt_format_name(enum pt_format f)
{
	return (unsigned int)f < PT_FORMAT_COUNT ? names[f] : "unknown";
}

enum pt_format pt_format_by_name(const char *name, size_t len)
{
	int f;

	for (f = 0; f < PT_FORMAT_COUNT; f++)
		if (strlen(names[f]) == len && memcmp(names[f], name, len) == 0)
			break;
	return (enum pt_format)f;
}

/* Marks at a fixed place. The order does not matter: no two can match the same bytes, but for ustar, which is last. */
static const struct mark {
	size_t off;
	const char *bytes;
	size_t len;
	enum pt_sniff sniff;
} marks[] = {
	{ 0, "\x93NUMPY", 6, PT_SNIFF_NPY },
	{ 0, "NOOM", 4, PT_SNIFF_OBJ },
	{ 0, "NAMW", 4, PT_SNIFF_MANIFEST },
	{ 0, "GGUF", 4, PT_SNIFF_GGUF },
	{ 0, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", 15, PT_SNIFF_TORCH_LEGACY },
	{ 0, "PYTORCH1", 8, PT_SNIFF_TORCH_LEGACY },
	{ 0, "PK\5\6", 4, PT_SNIFF_ZIP_OTHER },         /* a zip without entries */
	{ 257, "ustar", 5, PT_SNIFF_TORCH_TAR },
};

/* A zip that torch.save wrote begins with PREFIX/data.pkl, the prefix being one component. */
static enum pt_sniff sniff_zip(const uint8_t *b, size_t len, int at_end)
{
	static const char want[] = "/data.pkl";
	size_t name_len, tail = sizeof(want) - 1;

	if (len < 30)
		return at_end ? PT_SNIFF_ZIP_OTHER : PT_SNIFF_MORE;
	name_len = pt_get_le16(b + 26);
	if (name_len <= tail || name_len > PT_SNIFF_BYTES - 30)
		return PT_SNIFF_ZIP_OTHER;
	if (len < 30 + name_len)
		return at_end ? PT_SNIFF_ZIP_OTHER : PT_SNIFF_MORE;
	if (memcmp(b + 30 + name_len - tail, want, tail) != 0 || memchr(b + 30, '/', name_len - tail))
		return PT_SNIFF_ZIP_OTHER;
	return PT_SNIFF_PT;
}

/* u64 header length, then a JSON object: '{' and a quote or '}', white space between. */
static enum pt_sniff sniff_safetensors(const uint8_t *b, size_t len, int at_end)
{
	uint64_t header_len;
	size_t i;
	int brace = 0;

	if (len < 8) {
		/* The upper half of a length up to 100 MB is zero. */
		for (i = 4; i < len; i++)
			if (b[i])
				return PT_SNIFF_RAW;
		return at_end ? PT_SNIFF_RAW : PT_SNIFF_MORE;
	}
	header_len = pt_get_le64(b);
	if (header_len < 2 || header_len > 100000000)
		return PT_SNIFF_RAW;
	for (i = 8; i < len && i < PT_SNIFF_BYTES && i - 8 < header_len; i++) {
		if (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r')
			continue;
		if (!brace && b[i] == '{')
			brace = 1;
		else
			return brace && (b[i] == '"' || b[i] == '}') ? PT_SNIFF_SAFETENSORS : PT_SNIFF_RAW;
	}
	if (i >= PT_SNIFF_BYTES)
		return PT_SNIFF_SAFETENSORS;    /* a blank beginning of half a KiB: the parser will tell */
	return at_end || i - 8 >= header_len ? PT_SNIFF_RAW : PT_SNIFF_MORE;
}

enum pt_sniff pt_format_sniff(const void *head, size_t len, int at_end)
{
	const uint8_t *b = head;
	enum pt_sniff s;
	int more = 0;
	size_t i;

	if (len >= 4 && memcmp(b, "PK\3\4", 4) == 0)
		return sniff_zip(b, len, at_end);
	if (len < 4 && memcmp("PK\3\4", b, len) == 0)
		more = 1;
	s = sniff_safetensors(b, len, at_end);
	if (s == PT_SNIFF_SAFETENSORS)
		return s;
	if (s == PT_SNIFF_MORE)
		more = 1;
	for (i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		const struct mark *m = &marks[i];
		size_t have = len > m->off ? len - m->off : 0;

		if (have > m->len)
			have = m->len;
		if (have && memcmp(b + m->off, m->bytes, have) != 0)
			continue;
		if (have == m->len)
			return m->sniff;
		more = 1;
	}
	return more && !at_end ? PT_SNIFF_MORE : PT_SNIFF_RAW;
}
