/* tree/many_int.h - what the parts of many tensors as one file share: many.c (what it is made of), many_header.c (its header) and many_read.c (its bytes). */
#ifndef PT_TREE_MANY_INT_H
#define PT_TREE_MANY_INT_H

#include <pthread.h>

#include "format/serve.h"
#include "tensor/tensor.h"
#include "tree/many.h"

#define PT_MANY_KEPT 16                         /* views kept ready */

struct pt_many_item {
	char *name;
	struct pt_container *c;         /* or */
	struct pt_manifest *m;
	uint32_t tensor;
	struct pt_many_cut cut;
};

struct pt_many {
	struct pt_repo *repo;
	enum pt_format format;
	struct pt_many_item *items;
	uint32_t count, cap;
	struct pt_container **containers;       /* each once */
	uint32_t *held;                 /* while pinned: how many objects of each container; or NULL */
	uint32_t container_count;
	struct pt_served served;
	uint32_t *item_of;              /* payload of served -> item; NULL: the same */
	char *flat;                     /* pt_many_flat */
	uint64_t stamp;
	pthread_mutex_t lock;           /* kept, kept_item, kept_next */
	struct pt_view *kept[PT_MANY_KEPT];     /* prepared */
	uint32_t kept_item[PT_MANY_KEPT];
	uint32_t kept_next;
};

/* many_read.c: gives up a view that was kept ready; NULL is fine. */
void pt_many_kept_drop(struct pt_view *v);

#endif
