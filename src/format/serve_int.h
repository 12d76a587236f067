/* format/serve_int.h - building a served file piece by piece. Internal to format/.
 *
 * A format appends literal bytes to b->out.literals and payloads with pt_serve_payload(), in file order; the builder turns them
 * into segments. Memory failures are remembered and reported by pt_serve_finish(). */
#ifndef PT_FORMAT_SERVE_INT_H
#define PT_FORMAT_SERVE_INT_H

#include "format/serve.h"

struct pt_serve_builder {
	struct pt_served out;           /* out.size: where the literals not yet in a segment begin in the file */
	size_t literal_start;           /* the first of them in out.literals */
	size_t segment_cap;
	uint64_t zeros_off;             /* where out.literals holds PT_SERVE_ZEROS zeros shared by all pads */
	bool has_zeros;
	bool failed;
	bool too_big;
};

#define PT_SERVE_ZEROS 4096

/* Offset in the file of what is added next. */
uint64_t pt_serve_at(const struct pt_serve_builder *b);
/* n < PT_SERVE_ZEROS zero bytes; long runs share one literal. */
void pt_serve_pad(struct pt_serve_builder *b, uint64_t n);
void pt_serve_payload(struct pt_serve_builder *b, int32_t tensor, uint64_t bytes);
/* Moves the result out; -ENOMEM, -EFBIG. The builder is spent either way. */
int pt_serve_finish(struct pt_serve_builder *b, struct pt_served *ret_served);
void pt_serve_builder_done(struct pt_serve_builder *b);

/* One each; what they need of the dtype has been checked by pt_serve(). bytes[i]: payload of tensors[i]. */
int pt_serve_pt(const struct pt_serve_tensor *tensors, const uint64_t *bytes, size_t count, int as_dict, const struct pt_buf *pickle,
		struct pt_serve_builder *b);
int pt_serve_safetensors(const struct pt_serve_tensor *tensors, const uint64_t *bytes, size_t count, struct pt_serve_builder *b);
int pt_serve_npy(const struct pt_serve_tensor *t, uint64_t bytes, struct pt_serve_builder *b);
int pt_serve_obj(const struct pt_serve_tensor *t, uint64_t bytes, struct pt_serve_builder *b);

/* data.pkl of the tensors (serve_pickle.c). */
void pt_serve_pickle_tensor(const struct pt_serve_tensor *t, uint64_t bytes, size_t key, bool grad, struct pt_buf *pkl);
void pt_serve_pickle(const struct pt_serve_tensor *tensors, const uint64_t *bytes, size_t count, int as_dict, struct pt_buf *pkl);

#endif
