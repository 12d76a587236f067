/* tensor/view_int.h - what resolve.c builds and view.c reads. Internal to tensor/. */
#ifndef PT_TENSOR_VIEW_INT_H
#define PT_TENSOR_VIEW_INT_H

#include <pthread.h>

#include "plan/plan.h"
#include "tensor/tensor.h"

struct pt_view {
	int refs;                       /* atomic */
	struct pt_repo *repo;           /* not owned */
	struct pt_manifest *m;          /* referenced; NULL when nothing can be read */
	struct pt_view_info info;
	char source[160];               /* info.source points here */
	char *missing;                  /* unreadable: the sentence of pt_view_pin */
	pthread_mutex_t lock;           /* plan */
	struct pt_plan *plan;           /* made at the first pin of a view that is not exact */
	struct pt_strided *strided;     /* the tensor lies strided in its one object (derived.c); else NULL */
};

/* ---- resolve.c ---- */
struct pt_view *pt_view_new(struct pt_repo *repo);                      /* NULL without memory */
/* What a new view takes over from the revision that it is of, whatever part of it that is. */
void pt_view_info_of(struct pt_view *v, const struct pt_manifest *m);

/* ---- derived.c ---- */
void pt_strided_free(struct pt_strided *s);
/* The object's bytes in memory, verified; counted. */
int pt_strided_open(struct pt_view *v);
void pt_strided_close(struct pt_view *v);
int pt_strided_read(struct pt_view *v, void *buf, uint64_t len, uint64_t off);
/* The view's box is read out of an object in which the whole tensor lies as told. */
int pt_strided_set(struct pt_view *v, const struct pt_parse_tensor *lies);

#endif
