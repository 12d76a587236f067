/* tests/bench/bench_header.c - what a file of many tensors costs before its first payload byte: parsing its header, cutting every tensor for a rank, and making the
 * header of the rank's file. Run by `make bench-header`; the number of tensors may be given (100,000). */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "format/parse.h"
#include "format/serve.h"
#include "tree/tp_plan.h"

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
	fprintf(stderr, "bench_header: %s: %s\n", what, pt_fail_sentence());
	exit(1);
}

int main(int argc, char **argv)
{
	size_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000, i, cut = 0;
	static const char *const parts[] = { "self_attn.q_proj", "self_attn.o_proj", "mlp.experts.7.up_proj", "mlp.experts.7.down_proj", "input_layernorm" };
	struct pt_serve_tensor *t = calloc(count, sizeof(*t));
	char (*names)[96] = calloc(count, sizeof(*names));
	enum pt_format formats[] = { PT_FORMAT_SAFETENSORS, PT_FORMAT_PT };
	struct pt_parse_sink none = { NULL };
	struct pt_parser *parser;
	struct pt_served served;
	struct pt_tp_rule rule;
	struct pt_box box;
	double start;
	size_t f;

	if (!t || !names)
		die("memory");
	for (i = 0; i < count; i++) {
		snprintf(names[i], sizeof(names[i]), "model.layers.%zu.%s.weight", i / 5, parts[i % 5]);
		t[i] = (struct pt_serve_tensor){ .name = names[i], .dtype = PT_DTYPE_BF16, .shape = { .ndim = 2, .dim = { 128, 64 } } };
	}
	start = now();
	for (i = 0; i < count; i++) {
		pt_tp_plan_rule(NULL, names[i], &t[i].shape, &rule);
		if (rule.dim < 0)
			continue;
		if (pt_shard_box(&t[i].shape, PT_DTYPE_BF16, &(struct pt_partition){ 1, 4, rule.dim }, PT_SPLIT_BALANCED, &box) < 0)
			die("cut");
		pt_box_shape(&box, &t[i].shape);
		cut++;
	}
	printf("%zu tensors: cut %zu of them for a rank in %.3f s\n", count, cut, now() - start);
	for (f = 0; f < 2; f++) {
		start = now();
		if (pt_serve(formats[f], t, count, 1, &served) < 0)
			die("serve");
		printf("%-12s made  %10zu bytes of header in %.3f s\n", pt_format_name(formats[f]), served.literals.len, now() - start);
		start = now();
		if (pt_parser_create(formats[f], &none, NULL, &parser) < 0)
			die("parse");
		for (i = 0; i < served.segment_count; i++)
			if (pt_parser_feed(parser, served.segments[i].tensor < 0 ? served.literals.data + served.segments[i].literal_off : NULL, served.segments[i].len) < 0)
				die("parse");
		if (pt_parser_end(parser) < 0)
			die("parse");
		printf("%-12s taken %10" PRIu64 " bytes of file in %.3f s\n", pt_format_name(formats[f]), served.size, now() - start);
		pt_parser_free(parser);
		pt_served_done(&served);
	}
	free(t);
	free(names);
	return 0;
}
