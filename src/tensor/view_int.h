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
	char missing[2 * PT_LAYOUT_TEXT_MAX + 160];        /* unreadable: the sentence of pt_view_pin */
	pthread_mutex_t lock;           /* plan */
	struct pt_plan *plan;           /* made at the first pin of a view that is not exact */
};

#endif
