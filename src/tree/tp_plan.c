/* tree/tp_plan.c - plans: the terms, tp_plan.json, and what suffixes of names mean. */
#include "tree/tp_plan.h"

#include <errno.h>
#include <fnmatch.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tree/tp_builtin.h"

#define RULES_MAX 65536

enum term { TERM_COLWISE, TERM_ROWWISE, TERM_EMBEDDING, TERM_REPLICATE, TERM_FUSED, TERM_DIM };

struct rule {
	char *glob;
	char *why;
	enum term term;
	int32_t dim;                    /* TERM_DIM */
};

struct pt_tp_plan {
	struct rule *rules;
	size_t count;
};

/* Terms of Hugging Face's tp plans (transformers, integrations/tensor_parallel) beside our own. */
static const struct {
	const char *name;
	enum term term;
} terms[] = {
	{ "colwise", TERM_COLWISE }, { "colwise_rep", TERM_COLWISE }, { "colwise_gather_output", TERM_COLWISE }, { "local_colwise", TERM_COLWISE },
	{ "rowwise", TERM_ROWWISE }, { "rowwise_rep", TERM_ROWWISE }, { "rowwise_split_input", TERM_ROWWISE }, { "local_rowwise", TERM_ROWWISE },
	{ "embedding_rowwise", TERM_EMBEDDING }, { "vocab", TERM_EMBEDDING },
	{ "replicate", TERM_REPLICATE }, { "replicated", TERM_REPLICATE }, { "local", TERM_REPLICATE }, { "gather", TERM_REPLICATE },
	{ "isolated", TERM_REPLICATE }, { "sequence_parallel", TERM_REPLICATE }, { "ep_router", TERM_REPLICATE }, { "moe_tp_experts", TERM_REPLICATE },
	{ "replicated_with_grad_allreduce", TERM_REPLICATE }, { "mla_kv_a_proj", TERM_REPLICATE }, { "grouped_gemm", TERM_REPLICATE },
	{ "packed_colwise", TERM_FUSED }, { "packed_rowwise", TERM_FUSED }, { "local_packed_rowwise", TERM_FUSED }, { "local_packed_colwise", TERM_FUSED },
};

static int term_parse(const char *text, enum term *ret_term, int32_t *ret_dim)
{
	char *end;
	size_t i;
	long dim;

	for (i = 0; i < sizeof(terms) / sizeof(terms[0]); i++)
		if (strcmp(terms[i].name, text) == 0) {
			*ret_term = terms[i].term;
			return 0;
		}
	if (strncmp(text, "dim=", 4) == 0 && text[4] >= '0' && text[4] <= '9') {
		dim = strtol(text + 4, &end, 10);
		if (!*end && dim < PT_DIMS_MAX) {
			*ret_term = TERM_DIM;
			*ret_dim = (int32_t)dim;
			return 0;
		}
	}
	return -EINVAL;
}

int pt_tp_plan_parse(const char *json, size_t len, struct pt_tp_plan **ret_plan)
{
	struct pt_tp_plan *plan = NULL;
	json_t *root, *map, *value;
	json_error_t error;
	const char *glob;
	int rc = 0;

	root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &error);
	if (!root)
		return pt_fail(EINVAL, "tp_plan.json is not JSON: line %d: %s", error.line, error.text);
	map = json_object_get(root, "plan");
	if (!json_is_object(map))
		map = root;
	if (!json_is_object(map) || json_object_size(map) > RULES_MAX) {
		rc = pt_fail(EINVAL, "tp_plan.json must be an object of glob: term");
		goto out;
	}
	plan = pt_calloc(1, sizeof(*plan));
	if (plan)
		plan->rules = pt_calloc(json_object_size(map) + 1, sizeof(*plan->rules));
	if (!plan || !plan->rules) {
		rc = pt_fail_nomem();
		goto out;
	}
	json_object_foreach(map, glob, value) {
		struct rule *r = &plan->rules[plan->count];
		const char *text = json_string_value(value);

		if (!text || term_parse(text, &r->term, &r->dim) < 0) {
			rc = pt_fail(EINVAL, "tp_plan.json: \"%.200s\": \"%.60s\" is no way to split: use colwise, rowwise, replicate, embedding_rowwise or dim=D", glob,
				     text ? text : "(not a string)");
			goto out;
		}
		plan->count++;
		r->glob = pt_strdup(glob);
		r->why = pt_asprintf("tp_plan.json: %s is %s", glob, text);
		if (!r->glob || !r->why) {
			rc = pt_fail_nomem();
			goto out;
		}
	}
	*ret_plan = plan;
	plan = NULL;
out:
	pt_tp_plan_free(plan);
	json_decref(root);
	return rc;
}

void pt_tp_plan_free(struct pt_tp_plan *plan)
{
	size_t i;

	if (!plan)
		return;
	for (i = 0; plan->rules && i < plan->count; i++) {
		free(plan->rules[i].glob);
		free(plan->rules[i].why);
	}
	free(plan->rules);
	free(plan);
}

static bool special(char c)
{
	return c == '*' || c == '?' || c == '[' || c == ']' || c == '\\';
}

bool pt_tp_glob(const char *glob, const char *name)
{
	const char *g = glob + strlen(glob), *n = name + strlen(name);

	/* Few names end as a glob does, and seeing that they do not is much quicker than fnmatch. */
	while (g > glob && !special(g[-1])) {
		if (n == name || n[-1] != g[-1])
			return false;
		g--;
		n--;
	}
	return fnmatch(glob, name, 0) == 0;
}

static bool ends_with(const char *s, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && memcmp(s + len - n, end, n) == 0;
}

/* What a term makes of a tensor: bias or weight. */
static void apply(enum term term, int32_t dim, bool bias, const char *why, struct pt_tp_rule *ret)
{
	ret->why = why;
	switch (term) {
	case TERM_COLWISE:
	case TERM_EMBEDDING:
		ret->dim = 0;
		break;
	case TERM_ROWWISE:
		ret->dim = bias ? PT_TP_DIM_REPLICATE : 1;
		break;
	case TERM_DIM:
		ret->dim = dim;
		break;
	case TERM_FUSED:
		ret->dim = PT_TP_DIM_REPLICATE;
		ret->why = "replicated: fused weights are not cut, since their parts would have to be cut each by itself";
		break;
	case TERM_REPLICATE:
		ret->dim = PT_TP_DIM_REPLICATE;
		break;
	}
}

/* "a.b.weight_scale_inv" -> "a.b.weight"; false when it is no scale. */
static bool scale_of(const char *name, size_t len, char *ret_weight, size_t room)
{
	static const char *const ends[] = { "weight_scale_inv", "weight_scale", "weight_scales", "weight_zero_point", "scale_inv" };
	size_t i, n;

	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		n = strlen(ends[i]);
		if (!ends_with(name, len, ends[i]) || (len > n && name[len - n - 1] != '.') || len - n + 7 > room)
			continue;
		memcpy(ret_weight, name, len - n);
		strcpy(ret_weight + len - n, "weight");
		return true;
	}
	return false;
}

static bool is_bias(const char *name)
{
	return ends_with(name, strlen(name), ".bias") || strcmp(name, "bias") == 0;
}

/* The name without its last component; "" when there is none. */
static void module_of(const char *name, char *ret_module, size_t room)
{
	const char *dot = strrchr(name, '.');

	ret_module[0] = '\0';
	if (dot && (size_t)(dot - name) < room) {
		memcpy(ret_module, name, (size_t)(dot - name));
		ret_module[dot - name] = '\0';
	}
}

/* False: no glob of the plan fits. */
static bool own_rule(const struct pt_tp_plan *plan, const char *name, const char *module, struct pt_tp_rule *ret)
{
	size_t i;

	for (i = 0; plan && i < plan->count; i++) {
		const struct rule *r = &plan->rules[i];

		if (!pt_tp_glob(r->glob, name) && (!module[0] || !pt_tp_glob(r->glob, module)))
			continue;
		/* A glob that names the bias itself means it. */
		apply(r->term, r->dim, is_bias(name) && !ends_with(r->glob, strlen(r->glob), "bias"), r->why, ret);
		return true;
	}
	return false;
}

static void plain_rule(const struct pt_tp_plan *plan, const char *name, const struct pt_shape *shape, struct pt_tp_rule *ret)
{
	char module[1025];

	module_of(name, module, sizeof(module));
	if (!own_rule(plan, name, module, ret))
		pt_tp_builtin(name, module, is_bias(name), shape, ret);
}

int32_t pt_tp_plan_dim(const struct pt_tp_plan *plan, const char *name)
{
	struct pt_tp_rule rule;
	char module[1025], weight[1025];

	module_of(name, module, sizeof(module));
	if (strlen(name) < sizeof(weight) && scale_of(name, strlen(name), weight, sizeof(weight)))
		return -1;
	return own_rule(plan, name, module, &rule) && rule.dim >= 0 ? rule.dim : -1;
}

void pt_tp_plan_rule(const struct pt_tp_plan *plan, const char *name, const struct pt_shape *shape, struct pt_tp_rule *ret)
{
	size_t len = strlen(name);
	char weight[sizeof(ret->follows)];

	ret->follows[0] = '\0';
	if (len < sizeof(weight) && scale_of(name, len, weight, sizeof(weight))) {
		plain_rule(plan, weight, NULL, ret);
		if (ret->dim >= 0) {
			ret->dim = PT_TP_DIM_SCALE;
			strcpy(ret->follows, weight);
			ret->why = "follows its weight, on block boundaries";
		} else if (ret->dim == PT_TP_DIM_UNKNOWN) {
			ret->dim = PT_TP_DIM_REPLICATE;
			ret->why = "replicated: nothing says how its weight is split";
		}
		return;
	}
	plain_rule(plan, name, shape, ret);
}

int pt_tp_scale_box(const struct pt_shape *weight, int32_t dim, uint64_t off, uint64_t ext, const struct pt_shape *scale, struct pt_box *ret_box)
{
	uint64_t elems, block, have, want, end = off + ext;
	uint32_t d = (uint32_t)dim;

	pt_shape_box(scale, ret_box);
	if ((pt_shape_elems(scale, &elems) && elems <= 1) || dim < 0)
		return 0;
	/* One scale a row, without the other dimension. */
	if (d >= weight->ndim || d >= scale->ndim) {
		if (scale->ndim == 1 && weight->ndim == 2 && dim == 1 && scale->dim[0] == weight->dim[0])
			return 0;
		return pt_fail(EINVAL, "its shape has nothing to do with its weight's");
	}
	want = weight->dim[d];
	have = scale->dim[d];
	if (scale->ndim < weight->ndim && dim != 0)
		return scale->dim[0] == weight->dim[0] ? 0 : pt_fail(EINVAL, "its shape has nothing to do with its weight's");
	if (have == 1)
		return 0;
	if (!have || have > want)
		return pt_fail(EINVAL, "its shape has nothing to do with its weight's");
	block = want / have + (want % have != 0);
	if ((want + block - 1) / block != have)
		return pt_fail(EINVAL, "%llu scales along dimension %d do not divide its weight's %llu into blocks", (unsigned long long)have, (int)dim,
			       (unsigned long long)want);
	if (off % block || (end % block && end != want))
		return pt_fail(EINVAL, "its weight would be cut at %llu and %llu, inside blocks of %llu that share a scale", (unsigned long long)off,
			       (unsigned long long)end, (unsigned long long)block);
	ret_box->off[d] = off / block;
	ret_box->ext[d] = (end + block - 1) / block - ret_box->off[d];
	if (!ext)
		ret_box->ext[d] = 0;
	return 0;
}
