/* tests/integ/format_tool.c - the format layer on the command line, for tests/e2e/test_formats.py:
 *   format_tool serve FORMAT dict|bare crc|nocrc SPEC PAYLOADS > FILE     SPEC: records "dtype TAB shape TAB name", each ended by 0x1e
 *   format_tool parse FORMAT|auto DTYPE|- PIECE < FILE                    prints lines "dtype TAB shape TAB name TAB hex" */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/error.h"
#include "format/parse.h"
#include "format/serve.h"

static int die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, pt_fail_sentence());
	return 1;
}

static void slurp(FILE *f, struct pt_buf *ret)
{
	static uint8_t block[1 << 16];
	size_t n;

	while ((n = fread(block, 1, sizeof(block), f)) > 0)
		pt_buf_append(ret, block, n);
}

static int serve(char **argv)
{
	enum pt_format format = pt_format_by_name(argv[0], strlen(argv[0]));
	struct pt_serve_tensor *tensors = NULL;
	struct pt_buf spec = PT_BUF_INIT, payloads = PT_BUF_INIT;
	uint64_t *offs = NULL, at = 0, bytes;
	struct pt_served s;
	char *line, *save = NULL;
	size_t count = 0, i;
	FILE *f;

	if (!(f = fopen(argv[3], "rb")))
		return die(argv[3]);
	slurp(f, &spec);
	fclose(f);
	pt_buf_append_u8(&spec, 0);
	if (!(f = fopen(argv[4], "rb")))
		return die(argv[4]);
	slurp(f, &payloads);
	fclose(f);
	for (line = strtok_r((char *)spec.data, "\x1e", &save); line; line = strtok_r(NULL, "\x1e", &save)) {
		char *shape = strchr(line, '\t'), *name = strchr(shape + 1, '\t');
		struct pt_serve_tensor t = { 0 };

		if (count % 1024 == 0) {
			tensors = realloc(tensors, (count + 1024) * sizeof(*tensors));
			offs = realloc(offs, (count + 1024) * sizeof(*offs));
		}
		*shape++ = *name++ = '\0';
		t.dtype = pt_dtype_by_name(line);
		t.name = name;
		if (pt_shape_parse(shape, &t.shape) || pt_shape_bytes(&t.shape, t.dtype, &bytes))
			return die(line);
		if (bytes && strcmp(argv[2], "crc") == 0)
			t.crc32 = (uint32_t)crc32_z(0, payloads.data + at, bytes);
		offs[count] = at;
		at += bytes;
		tensors[count++] = t;
	}
	if (pt_serve(format, tensors, count, strcmp(argv[1], "dict") == 0, &s))
		return die("serve");
	for (i = 0; i < s.segment_count; i++) {
		const struct pt_segment *g = &s.segments[i];

		fwrite(g->tensor < 0 ? s.literals.data + g->literal_off : payloads.data + offs[g->tensor], 1, g->len, stdout);
	}
	pt_served_done(&s);
	pt_buf_done(&spec);
	pt_buf_done(&payloads);
	free(tensors);
	free(offs);
	return 0;
}

#define STORAGES 4096

static struct pt_buf storage[STORAGES];
static struct pt_parse_tensor *seen;
static size_t seen_count;

static int on_storage(void *ctx, uint32_t index, uint64_t bytes)
{
	(void)ctx;
	return index < STORAGES && bytes < 1 << 28 ? 0 : pt_fail(ENOSPC, "too much for this tool");
}

static int on_tensor(void *ctx, const struct pt_parse_tensor *t)
{
	(void)ctx;
	seen = realloc(seen, (seen_count + 1) * sizeof(*seen));
	seen[seen_count] = *t;
	seen[seen_count++].name = strdup(t->name);
	return 0;
}

static int on_data(void *ctx, uint32_t index, uint64_t off, const void *data, uint64_t len)
{
	(void)ctx;
	(void)off;
	pt_buf_append(&storage[index], data, len);
	return 0;
}

static int parse(char **argv)
{
	static const struct pt_parse_sink sink = { .storage = on_storage, .tensor = on_tensor, .data = on_data };
	struct pt_parse_hint hint = { .dtype = pt_dtype_by_name(argv[1]) };
	size_t piece = strtoul(argv[2], NULL, 10), at, n, i, j;
	struct pt_buf file = PT_BUF_INIT;
	struct pt_parser *p;
	char shape[2048];

	slurp(stdin, &file);
	if (pt_parser_create(strcmp(argv[0], "auto") ? pt_format_by_name(argv[0], strlen(argv[0])) : PT_FORMAT_COUNT, &sink, &hint, &p))
		return die("create");
	for (at = 0; at < file.len; at += n) {
		n = file.len - at < piece ? file.len - at : piece;
		if (pt_parser_feed(p, file.data + at, n))
			return die("refused");
	}
	if (pt_parser_end(p))
		return die("incomplete");
	for (i = 0; i < seen_count; i++) {
		const struct pt_parse_tensor *t = &seen[i];
		uint64_t bytes, elems;
		uint8_t *out;

		if (pt_shape_bytes(&t->shape, t->dtype, &bytes) || !pt_shape_elems(&t->shape, &elems))
			return die("shape");
		out = malloc(bytes + 1);
		if (bytes)
			pt_gather_strided(storage[t->storage].data, t, 0, elems * pt_dtype_info(t->dtype)->bits / 8 == bytes ?
					  bytes / (pt_dtype_info(t->dtype)->bits < 8 ? 1 : pt_dtype_info(t->dtype)->bits / 8) : 0, out);
		pt_shape_format(&t->shape, shape, sizeof(shape));
		printf("%s\t%s\t%s\t", pt_dtype_info(t->dtype)->name, shape, t->name);
		for (j = 0; j < bytes; j++)
			printf("%02x", out[j]);
		printf("\n");
		free(out);
		free((char *)t->name);
	}
	for (i = 0; i < STORAGES; i++)
		pt_buf_done(&storage[i]);
	free(seen);
	pt_parser_free(p);
	pt_buf_done(&file);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 7 && strcmp(argv[1], "serve") == 0)
		return serve(argv + 2);
	if (argc == 5 && strcmp(argv[1], "parse") == 0)
		return parse(argv + 2);
	fprintf(stderr, "usage: format_tool serve FORMAT dict|bare crc|nocrc SPEC PAYLOADS, or parse FORMAT|auto DTYPE|- PIECE\n");
	return 2;
}
