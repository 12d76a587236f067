/* Claims of plans: the usual names are split as the models need it, biases and scales follow their weights, tp_plan.json comes first in Hugging Face's terms, and what
 * makes no sense is refused by name. */
#include <check.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lib/suite.h"
#include "tree/tp_builtin.h"
#include "tree/tp_plan.h"

static const struct {
	const char *name;
	int32_t dim;
} known[] = {
	/* Llama, Qwen, Mistral, Gemma */
	{ "model.embed_tokens.weight", 0 }, { "lm_head.weight", 0 }, { "model.layers.7.self_attn.q_proj.weight", 0 },
	{ "model.layers.7.self_attn.k_proj.bias", 0 }, { "model.layers.7.self_attn.v_proj.weight", 0 }, { "model.layers.7.self_attn.o_proj.weight", 1 },
	{ "model.layers.7.self_attn.o_proj.bias", PT_TP_DIM_REPLICATE }, { "model.layers.7.mlp.gate_proj.weight", 0 },
	{ "model.layers.7.mlp.up_proj.weight", 0 }, { "model.layers.7.mlp.down_proj.weight", 1 },
	{ "model.layers.7.input_layernorm.weight", PT_TP_DIM_REPLICATE }, { "model.layers.7.self_attn.q_norm.weight", PT_TP_DIM_REPLICATE },
	{ "model.layers.7.pre_feedforward_layernorm.weight", PT_TP_DIM_REPLICATE }, { "model.norm.weight", PT_TP_DIM_REPLICATE },
	{ "model.layers.0.self_attn.rotary_emb.inv_freq", PT_TP_DIM_REPLICATE },
	/* Mixtral, Qwen MoE, DeepSeek */
	{ "model.layers.3.block_sparse_moe.experts.5.w1.weight", 0 }, { "model.layers.3.block_sparse_moe.experts.5.w2.weight", 1 },
	{ "model.layers.3.block_sparse_moe.experts.5.w3.weight", 0 }, { "model.layers.3.block_sparse_moe.gate.weight", PT_TP_DIM_REPLICATE },
	{ "model.layers.3.mlp.experts.11.down_proj.weight", 1 }, { "model.layers.3.mlp.shared_experts.up_proj.weight", 0 },
	{ "model.layers.3.mlp.gate.weight", PT_TP_DIM_REPLICATE }, { "model.layers.3.mlp.gate.e_score_correction_bias", PT_TP_DIM_REPLICATE },
	{ "model.layers.3.self_attn.q_a_proj.weight", PT_TP_DIM_REPLICATE }, { "model.layers.3.self_attn.q_b_proj.weight", 0 },
	{ "model.layers.3.self_attn.kv_a_proj_with_mqa.weight", PT_TP_DIM_REPLICATE }, { "model.layers.3.self_attn.kv_b_proj.weight", 0 },
	{ "model.layers.3.self_attn.kv_a_layernorm.weight", PT_TP_DIM_REPLICATE },
	/* the original checkpoints of Llama and Mistral */
	{ "layers.0.attention.wq.weight", 0 }, { "layers.0.attention.wo.weight", 1 }, { "layers.0.feed_forward.w2.weight", 1 },
	{ "tok_embeddings.weight", 0 }, { "output.weight", 0 }, { "layers.0.attention_norm.weight", PT_TP_DIM_REPLICATE },
	/* GPT-2 keeps weights transposed */
	{ "transformer.h.0.attn.c_attn.weight", PT_TP_DIM_REPLICATE }, { "transformer.h.0.attn.c_proj.weight", 0 }, { "h.0.mlp.c_fc.weight", 1 },
	{ "h.0.mlp.c_fc.bias", 0 }, { "h.0.mlp.c_proj.weight", 0 }, { "h.0.mlp.c_proj.bias", PT_TP_DIM_REPLICATE }, { "wte.weight", 0 },
	{ "wpe.weight", PT_TP_DIM_REPLICATE }, { "h.0.ln_1.weight", PT_TP_DIM_REPLICATE }, { "ln_f.bias", PT_TP_DIM_REPLICATE },
	/* BERT */
	{ "bert.encoder.layer.0.attention.self.query.weight", 0 }, { "bert.encoder.layer.0.attention.self.query.bias", 0 },
	{ "encoder.layer.0.attention.output.dense.weight", 1 }, { "encoder.layer.0.attention.output.dense.bias", PT_TP_DIM_REPLICATE },
	{ "encoder.layer.0.attention.output.LayerNorm.weight", PT_TP_DIM_REPLICATE }, { "encoder.layer.0.intermediate.dense.bias", 0 },
	{ "encoder.layer.0.output.dense.weight", 1 }, { "embeddings.word_embeddings.weight", 0 },
	{ "embeddings.position_ids", PT_TP_DIM_REPLICATE }, { "pooler.dense.weight", PT_TP_DIM_REPLICATE },
	/* fused and unknown */
	{ "model.layers.0.self_attn.qkv_proj.weight", PT_TP_DIM_REPLICATE }, { "model.layers.0.mlp.gate_up_proj.weight", PT_TP_DIM_REPLICATE },
	{ "something.else.weight", PT_TP_DIM_UNKNOWN }, { "model.layers.7.self_attn.q_proj.qweight", PT_TP_DIM_UNKNOWN },
};

START_TEST(the_usual_names_are_known)
{
	struct pt_shape shape = { .ndim = 2, .dim = { 64, 64 } };
	struct pt_tp_rule rule;

	pt_tp_plan_rule(NULL, known[_i].name, &shape, &rule);
	ck_assert_msg(rule.dim == known[_i].dim, "%s: %d, not %d (%s)", known[_i].name, rule.dim, known[_i].dim, rule.why);
	ck_assert_ptr_nonnull(rule.why);
}
END_TEST

START_TEST(globs_are_those_of_fnmatch)
{
	static const char letters[] = "ab.*?[]\\!-";
	char glob[9], name[9];
	uint64_t x = 88172645463325252u;
	uint32_t i, k, fits = 0;

	for (i = 0; i < 300000; i++) {
		for (k = 0; k < 8; k++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			glob[k] = letters[(x >> 16) % (sizeof(letters) - 1)];
			name[k] = letters[(x >> 32) % 3];
		}
		glob[x >> 40 & 7] = '\0';
		name[x >> 48 & 7] = '\0';
		fits += pt_tp_glob(glob, name);
		ck_assert_msg(pt_tp_glob(glob, name) == (fnmatch(glob, name, 0) == 0), "\"%s\", \"%s\"", glob, name);
	}
	ck_assert_uint_gt(fits, 10000);
}
END_TEST

START_TEST(a_scale_follows_its_weight_on_block_boundaries)
{
	struct pt_shape w = { .ndim = 2, .dim = { 512, 256 } }, block = { .ndim = 2, .dim = { 4, 2 } }, row = { .ndim = 2, .dim = { 512, 1 } }, one = { .ndim = 0 };
	struct pt_tp_rule rule;
	struct pt_box box;

	pt_tp_plan_rule(NULL, "model.layers.0.mlp.down_proj.weight_scale_inv", &block, &rule);
	ck_assert_int_eq(rule.dim, PT_TP_DIM_SCALE);
	ck_assert_str_eq(rule.follows, "model.layers.0.mlp.down_proj.weight");
	pt_tp_plan_rule(NULL, "model.norm.weight_scale", &one, &rule);
	ck_assert_int_eq(rule.dim, PT_TP_DIM_REPLICATE);
	ck_assert_int_eq(pt_tp_scale_box(&w, 1, 128, 128, &block, &box), 0);
	ck_assert(box.off[0] == 0 && box.ext[0] == 4 && box.off[1] == 1 && box.ext[1] == 1);
	ck_assert_int_eq(pt_tp_scale_box(&w, 0, 384, 128, &row, &box), 0);
	ck_assert(box.off[0] == 384 && box.ext[0] == 128 && box.ext[1] == 1);
	ck_assert_int_eq(pt_tp_scale_box(&w, 1, 0, 64, &row, &box), 0);
	ck_assert(box.ext[0] == 512 && box.ext[1] == 1);
	ck_assert_int_eq(pt_tp_scale_box(&w, 0, 0, 64, &one, &box), 0);
	ck_assert_int_eq(pt_tp_scale_box(&w, 1, 64, 64, &block, &box), -EINVAL);
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "blocks of 128"));
}
END_TEST

START_TEST(a_directorys_plan_comes_first)
{
	static const char json[] = "{\"model.layers.*.self_attn.q_proj\": \"rowwise\", \"*.mlp\": \"replicate\", \"emb\": \"embedding_rowwise\","
				   " \"a.*.bias\": \"rowwise\", \"x\": \"dim=3\", \"y\": \"packed_colwise\"}";
	struct pt_shape shape = { .ndim = 2, .dim = { 64, 64 } };
	struct pt_tp_plan *plan;
	struct pt_tp_rule rule;

	ck_assert_int_eq(pt_tp_plan_parse(json, strlen(json), &plan), 0);
	pt_tp_plan_rule(plan, "model.layers.3.self_attn.q_proj.weight", &shape, &rule);
	ck_assert_int_eq(rule.dim, 1);
	ck_assert_ptr_nonnull(strstr(rule.why, "model.layers.*.self_attn.q_proj"));
	pt_tp_plan_rule(plan, "model.layers.3.self_attn.q_proj.bias", &shape, &rule);
	ck_assert_int_eq(rule.dim, PT_TP_DIM_REPLICATE);
	pt_tp_plan_rule(plan, "model.layers.3.self_attn.k_proj.weight", &shape, &rule);
	ck_assert_int_eq(rule.dim, 0);
	pt_tp_plan_rule(plan, "emb.weight", &shape, &rule);
	ck_assert_int_eq(rule.dim, 0);
	pt_tp_plan_rule(plan, "x", &shape, &rule);
	ck_assert_int_eq(rule.dim, 3);
	pt_tp_plan_rule(plan, "y.weight", &shape, &rule);
	ck_assert_int_eq(rule.dim, PT_TP_DIM_REPLICATE);
	pt_tp_plan_free(plan);
}
END_TEST

START_TEST(a_plan_that_makes_no_sense_is_refused_by_name)
{
	static const char *const bad[] = { "{\"w\": \"sideways\"}", "[1]", "{", "{\"w\": 1}", "{\"w\": \"dim=-1\"}", "{\"w\": \"dim=64\"}", "{\"w\": \"dim=1x\"}" };
	struct pt_tp_plan *plan;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_int_eq(pt_tp_plan_parse(bad[i], strlen(bad[i]), &plan), -EINVAL);
	ck_assert_int_eq(pt_tp_plan_parse(bad[0], strlen(bad[0]), &plan), -EINVAL);
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "sideways"));
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("tp_plan");

	tcase_add_loop_test(t, the_usual_names_are_known, 0, sizeof(known) / sizeof(known[0]));
	tcase_add_test(t, globs_are_those_of_fnmatch);
	tcase_add_test(t, a_scale_follows_its_weight_on_block_boundaries);
	tcase_add_test(t, a_directorys_plan_comes_first);
	tcase_add_test(t, a_plan_that_makes_no_sense_is_refused_by_name);
	return run_suite("tp_plan", &t, 1);
}
