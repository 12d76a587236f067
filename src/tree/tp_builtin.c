/* tree/tp_builtin.c - the built-in plan: what the usual module names mean in Llama, Qwen, Mistral, Mixtral, DeepSeek, Gemma, GPT-2 and BERT.
 *
 * Names are those of the models' state dicts; how each is split is what the tp plans of transformers and the layers of serving engines do: projections into heads or
 * into the hidden part of an MLP by columns, those out of it by rows, embeddings and the output head by the vocabulary, norms and routers not at all. */
#include "tree/tp_builtin.h"

#include <string.h>

enum how { COL, ROW, VOCAB, WHOLE, FUSED, CONV_COL, CONV_ROW };

struct known {
	const char *module;             /* glob of a module's name */
	enum how how;
};

/* The first that fits counts. */
static const struct known modules[] = {
	/* GPT-2: Conv1D keeps its weight as (in, out). */
	{ "*h.[0-9]*.attn.c_attn", FUSED }, { "*h.[0-9]*.attn.c_proj", CONV_ROW }, { "*h.[0-9]*.mlp.c_fc", CONV_COL }, { "*h.[0-9]*.mlp.c_proj", CONV_ROW },
	{ "wte", VOCAB }, { "*.wte", VOCAB }, { "wpe", WHOLE }, { "*.wpe", WHOLE },
	/* Decoders: attention. */
	{ "*attn.q_proj", COL }, { "*attn.k_proj", COL }, { "*attn.v_proj", COL }, { "*attn.o_proj", ROW },
	{ "*attn.qkv_proj", FUSED }, { "*attn.query_key_value", FUSED }, { "*attn.W_pack", FUSED },
	/* DeepSeek's latent attention: the low-rank parts are whole. */
	{ "*attn.q_a_proj", WHOLE }, { "*attn.kv_a_proj_with_mqa", WHOLE }, { "*attn.q_b_proj", COL }, { "*attn.kv_b_proj", COL },
	/* Experts and MLPs. */
	{ "*mlp.experts.gate_up_proj", FUSED }, { "*gate_up_proj", FUSED },
	{ "*mlp.shared_expert_gate", WHOLE }, { "*mlp.gate", WHOLE }, { "*block_sparse_moe.gate", WHOLE }, { "*.router", WHOLE },
	{ "*.gate_proj", COL }, { "*.up_proj", COL }, { "*.down_proj", ROW },
	{ "*.experts.[0-9]*.w1", COL }, { "*.experts.[0-9]*.w3", COL }, { "*.experts.[0-9]*.w2", ROW },
	/* Names of the original Llama and Mistral checkpoints. */
	{ "*layers.[0-9]*.attention.w[qkv]", COL }, { "*layers.[0-9]*.attention.wo", ROW }, { "*layers.[0-9]*.feed_forward.w[13]", COL },
	{ "*layers.[0-9]*.feed_forward.w2", ROW }, { "tok_embeddings", VOCAB }, { "output", VOCAB },
	{ "*embed_tokens", VOCAB }, { "lm_head", VOCAB }, { "*.lm_head", VOCAB },
	/* BERT. */
	{ "*attention.self.query", COL }, { "*attention.self.key", COL }, { "*attention.self.value", COL }, { "*attention.output.dense", ROW },
	{ "*intermediate.dense", COL }, { "*layer.[0-9]*.output.dense", ROW }, { "*word_embeddings", VOCAB }, { "*position_embeddings", WHOLE },
	{ "*token_type_embeddings", WHOLE }, { "*pooler.dense", WHOLE }, { "*cls.predictions.transform.dense", WHOLE }, { "*cls.predictions.decoder", VOCAB },
	{ "cls.predictions", VOCAB }, { "*cls.seq_relationship", WHOLE }, { "classifier", WHOLE }, { "score", WHOLE }, { "*qa_outputs", WHOLE },
	/* Norms. */
	{ "*norm", WHOLE }, { "*[nN]orm", WHOLE }, { "*layernorm", WHOLE }, { "*norm[0-9]*", WHOLE }, { "*_norm", WHOLE }, { "*ln_[0-9f]*", WHOLE },
	{ "*rotary_emb", WHOLE },
};

/* Whole tensors by their own names. */
static const char *const whole[] = { "*.rotary_emb.inv_freq", "*embeddings.position_ids", "*.e_score_correction_bias", "*.attn.masked_bias", "*.attn.bias",
				     "rope.freqs", "*input_scale", "*.k_scale", "*.v_scale" };

static const char *const why_of[] = {
	[COL] = "built-in plan: a projection in, split by columns (dimension 0)",
	[ROW] = "built-in plan: a projection out, split by rows (dimension 1)",
	[VOCAB] = "built-in plan: split by the vocabulary (dimension 0)",
	[WHOLE] = "built-in plan: replicated",
	[FUSED] = "replicated: fused weights are not cut, since their parts would have to be cut each by itself",
	[CONV_COL] = "built-in plan: a projection in, kept transposed (dimension 1)",
	[CONV_ROW] = "built-in plan: a projection out, kept transposed (dimension 0)",
};

static void decide(enum how how, bool bias, struct pt_tp_rule *ret)
{
	ret->why = why_of[how];
	ret->dim = PT_TP_DIM_REPLICATE;
	switch (how) {
	case COL:
	case VOCAB:
		ret->dim = 0;
		break;
	case ROW:
		ret->dim = bias ? PT_TP_DIM_REPLICATE : 1;
		break;
	case CONV_COL:
		ret->dim = bias ? 0 : 1;
		break;
	case CONV_ROW:
		ret->dim = bias ? PT_TP_DIM_REPLICATE : 0;
		break;
	default:
		break;
	}
	if (bias && ret->dim == PT_TP_DIM_REPLICATE && (how == ROW || how == CONV_ROW))
		ret->why = "built-in plan: the bias of a projection out is added once, so it is replicated";
}

void pt_tp_builtin(const char *name, const char *module, bool bias, const struct pt_shape *shape, struct pt_tp_rule *ret)
{
	const char *last = strrchr(name, '.');
	size_t i;

	for (i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
		if (pt_tp_glob(whole[i], name)) {
			decide(WHOLE, false, ret);
			return;
		}
	last = last ? last + 1 : name;
	/* Packed and quantised weights (qweight, scales, g_idx ...) have layouts of their own. */
	if (bias || strcmp(last, "weight") == 0 || strcmp(last, "gamma") == 0 || strcmp(last, "beta") == 0)
		for (i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
			if (pt_tp_glob(modules[i].module, module)) {
				decide(modules[i].how, bias, ret);
				return;
			}
	if (shape && shape->ndim == 0) {
		ret->dim = PT_TP_DIM_REPLICATE;
		ret->why = "replicated: it has no dimension to split";
		return;
	}
	ret->dim = PT_TP_DIM_UNKNOWN;
	ret->why = "replicated: no plan knows this name (tp_plan.json can say how it is split)";
}
