/* format/parse.c - the parsers' front end: recognises the format, keeps the first error with its sentence, refuses what
 * comes after the end, and calls the sink for the format parsers.
 *
 * Until the format is known at most PT_SNIFF_BYTES are held here and then fed to the format's parser. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "format/parse_int.h"

struct pt_parser {
	struct pt_parse_ctx ctx;
	bool guess;                     /* the format is to be recognised */
	const struct pt_parse_ops *ops; /* NULL until it is known */
	void *state;
	uint8_t head[PT_SNIFF_BYTES];   /* what came before that */
	size_t head_len;
	int error;                      /* held for good */
	char sentence[PT_FAIL_SENTENCE_MAX];
};

static const struct pt_parse_ops *const all_ops[PT_FORMAT_COUNT] = {
	[PT_FORMAT_PT] = &pt_parse_ops_pt,
	[PT_FORMAT_SAFETENSORS] = &pt_parse_ops_safetensors,
	[PT_FORMAT_NPY] = &pt_parse_ops_npy,
	[PT_FORMAT_BIN] = &pt_parse_ops_bin,
	[PT_FORMAT_OBJ] = &pt_parse_ops_obj,
};

/* --- towards the sink -------------------------------------------------------------------------------------------------- */

static int sink_rc(int rc)
{
	return rc < 0 ? rc : 0;
}

int pt_parse_storage(struct pt_parse_ctx *ctx, uint64_t bytes, uint32_t *ret_index)
{
	uint32_t index = ctx->storage_count;
	int rc;

	if (index == UINT32_MAX)
		return pt_fail(EFBIG, "the file has more than %u storages", UINT32_MAX);
	rc = sink_rc(ctx->sink.storage ? ctx->sink.storage(ctx->sink.ctx, index, bytes) : 0);
	if (rc)
		return rc;
	ctx->storage_count++;
	*ret_index = index;
	return 0;
}

int pt_parse_tensor(struct pt_parse_ctx *ctx, const struct pt_parse_tensor *t)
{
	return sink_rc(ctx->sink.tensor ? ctx->sink.tensor(ctx->sink.ctx, t) : 0);
}

int pt_parse_header_done(struct pt_parse_ctx *ctx)
{
	ctx->header_done = true;
	return sink_rc(ctx->sink.header_done ? ctx->sink.header_done(ctx->sink.ctx) : 0);
}

int pt_parse_data(struct pt_parse_ctx *ctx, uint32_t storage, uint64_t off, const void *data, uint64_t len)
{
	if (!len)
		return 0;
	return sink_rc(ctx->sink.data ? ctx->sink.data(ctx->sink.ctx, storage, off, data, len) : 0);
}

int pt_parse_complete(struct pt_parse_ctx *ctx)
{
	int rc = sink_rc(ctx->sink.complete ? ctx->sink.complete(ctx->sink.ctx) : 0);

	if (!rc)
		ctx->complete = true;
	return rc;
}

uint64_t pt_parse_collect(struct pt_buf *buf, uint64_t want, const uint8_t *data, uint64_t len)
{
	uint64_t take = buf->len < want ? pt_size_min(want - buf->len, len) : 0;

	if (data)
		pt_buf_append(buf, data, take);
	else
		pt_buf_append_zeros(buf, take);
	return take;
}

/* --- the parser -------------------------------------------------------------------------------------------------------- */

int pt_parser_create(enum pt_format format, const struct pt_parse_sink *sink, const struct pt_parse_hint *hint, struct pt_parser **ret_p)
{
	struct pt_parser *p = pt_calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return pt_fail_nomem();
	p->ctx.sink = *sink;
	if (hint)
		p->ctx.hint = *hint;
	if (format == PT_FORMAT_COUNT) {
		p->guess = true;
	} else {
		p->ops = all_ops[format];
		rc = p->ops->create(&p->ctx, &p->state);
		if (rc) {
			p->ops = NULL;
			pt_parser_free(p);
			return rc;
		}
	}
	*ret_p = p;
	return 0;
}

void pt_parser_free(struct pt_parser *p)
{
	if (!p)
		return;
	if (p->ops)
		p->ops->free(p->state);
	free(p);
}

static int hold(struct pt_parser *p, int rc)
{
	p->error = rc;
	snprintf(p->sentence, sizeof(p->sentence), "%s", pt_fail_sentence());
	return rc;
}

static int feed_ops(struct pt_parser *p, const uint8_t *data, uint64_t len)
{
	int rc;

	while (len) {
		uint64_t used = 0;

		if (p->ctx.complete)
			return pt_fail(EINVAL, "bytes follow the end of the %s file at byte %llu; write the file without them",
				       pt_format_name(p->ops->format), (unsigned long long)p->ctx.fed);
		rc = p->ops->feed(p->state, data, len, &used);
		p->ctx.fed += used;
		if (rc)
			return rc;
		len -= used;
		if (data)
			data += used;
	}
	return 0;
}

static bool bin_is_described(const struct pt_parser *p)
{
	return p->ctx.hint.dtype != PT_DTYPE_INVALID && p->ctx.hint.has_shape;
}

static int choose(struct pt_parser *p, enum pt_sniff s)
{
	enum pt_format format;
	int rc;

	switch (s) {
	case PT_SNIFF_PT:
		format = PT_FORMAT_PT;
		break;
	case PT_SNIFF_SAFETENSORS:
		format = PT_FORMAT_SAFETENSORS;
		break;
	case PT_SNIFF_NPY:
		format = PT_FORMAT_NPY;
		break;
	case PT_SNIFF_OBJ:
		format = PT_FORMAT_OBJ;
		break;
	case PT_SNIFF_MANIFEST:
		return pt_fail(EINVAL, "this is a 96-byte manifest of a tensor set, not a tensor; write the tensor objects (they begin with \"NOOM\"), "
			       "ptio keeps what the manifest says by itself");
	case PT_SNIFF_TORCH_LEGACY:
		return pt_fail(EINVAL, "this is torch's old format from before the zip one; load it and save it again with torch.save(x, path)");
	case PT_SNIFF_TORCH_TAR:
		return pt_fail(EINVAL, "this is a tar file (torch's oldest format, or an archive); load it and save each tensor with torch.save(x, path)");
	case PT_SNIFF_GGUF:
		return pt_fail(EINVAL, "this is a GGUF file, which ptio does not read; convert it to safetensors first");
	case PT_SNIFF_ZIP_OTHER:
		return pt_fail(EINVAL, "this is a zip file, but not one that torch.save wrote (an .npz or TorchScript file?); save the tensors with torch.save, "
			       "safetensors or numpy.save");
	default:
		if (!bin_is_described(p))
			return pt_fail(EINVAL, "the first bytes are none of torch.save, safetensors, npy or obj; to write plain payload bytes "
				       "set user.ptio.dtype and user.ptio.shape first (ptio put: --dtype, --shape)");
		format = PT_FORMAT_BIN;
		break;
	}
	rc = all_ops[format]->create(&p->ctx, &p->state);
	if (rc)
		return rc;
	p->ops = all_ops[format];
	return feed_ops(p, p->head, p->head_len);
}

/* Are the bytes so far all that a described bin has? */
static bool bin_is_here(const struct pt_parser *p)
{
	uint64_t bytes;

	return bin_is_described(p) && pt_shape_bytes(&p->ctx.hint.shape, p->ctx.hint.dtype, &bytes) == 0 && bytes == p->head_len;
}

static int feed(struct pt_parser *p, const uint8_t *data, uint64_t len)
{
	int rc;

	while (len && !p->ops) {
		enum pt_sniff s;

		if (data)
			p->head[p->head_len++] = *data++;
		else
			p->head[p->head_len++] = 0;
		len--;
		/* A described bin that is shorter than recognition needs is told from the beginning of another format at the end only. */
		s = pt_format_sniff(p->head, p->head_len, p->head_len == sizeof(p->head));
		if (s == PT_SNIFF_MORE)
			continue;
		rc = choose(p, s);
		if (rc)
			return rc;
	}
	return feed_ops(p, data, len);
}

int pt_parser_feed(struct pt_parser *p, const void *data, uint64_t len)
{
	int rc;

	if (p->error)
		return pt_fail(-p->error, "%s", p->sentence);
	rc = feed(p, data, len);
	return rc ? hold(p, rc) : 0;
}

uint64_t pt_parser_fed(const struct pt_parser *p)
{
	return p->ops ? p->ctx.fed : p->head_len;
}

bool pt_parser_complete(const struct pt_parser *p)
{
	return p->ctx.complete && !p->error;
}

enum pt_format pt_parser_format(const struct pt_parser *p)
{
	return p->ops ? p->ops->format : PT_FORMAT_COUNT;
}

int pt_parser_end(struct pt_parser *p)
{
	int rc;

	if (p->error)
		return pt_fail(-p->error, "%s", p->sentence);
	if (!p->ops) {
		if (!p->head_len && !(bin_is_here(p) && p->guess))
			return pt_fail(EINVAL, "the file is empty; write a tensor file");
		rc = choose(p, pt_format_sniff(p->head, p->head_len, 1));
		if (rc)
			return hold(p, rc);
	}
	return p->ctx.complete ? 0 : p->ops->end(p->state);
}
