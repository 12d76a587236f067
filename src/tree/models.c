/* tree/models.c - what models.h says: two small caches, and building the index of a directory, whose names are made in model_dir.c. */
#include "tree/models.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "tree/tree.h"

#define CONTAINERS 256
#define DIRS 64
#define PLAN_BYTES_MAX (4u << 20)

struct pt_models {
	struct pt_repo *repo;
	pthread_mutex_t lock;           /* everything below */
	struct pt_container *container[CONTAINERS];     /* by use, latest first */
	size_t container_count;
	struct pt_model_dir *dir[DIRS];
	size_t dir_count;
};

int pt_models_create(struct pt_repo *repo, struct pt_models **ret_models)
{
	struct pt_models *m = pt_calloc(1, sizeof(*m));

	if (!m)
		return pt_fail_nomem();
	m->repo = repo;
	pthread_mutex_init(&m->lock, NULL);
	*ret_models = m;
	return 0;
}

void pt_models_free(struct pt_models *m)
{
	size_t i;

	if (!m)
		return;
	for (i = 0; i < m->container_count; i++)
		pt_container_unref(m->container[i]);
	for (i = 0; i < m->dir_count; i++)
		pt_model_dir_unref(m->dir[i]);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

/* Moves entry i of an array of pointers to its front. */
static void to_front(void **array, size_t i)
{
	void *p = array[i];

	memmove(array + 1, array, i * sizeof(*array));
	array[0] = p;
}

int pt_models_container_try(struct pt_models *m, const struct pt_node *node, struct pt_container **ret_c)
{
	struct pt_container *c = NULL, *drop = NULL;
	size_t i;
	int rc;

	pthread_mutex_lock(&m->lock);
	for (i = 0; i < m->container_count && !c; i++)
		if (pt_id_compare(&m->container[i]->blob.id, &node->blob.id) == 0 && m->container[i]->node == node->id) {
			c = pt_container_ref(m->container[i]);
			to_front((void **)m->container, i);
		}
	pthread_mutex_unlock(&m->lock);
	if (!c) {
		rc = pt_container_try(m->repo, node, &c);
		if (rc)
			return rc;
		pthread_mutex_lock(&m->lock);
		if (m->container_count == CONTAINERS)
			drop = m->container[--m->container_count];
		memmove(m->container + 1, m->container, m->container_count * sizeof(m->container[0]));
		m->container[0] = pt_container_ref(c);
		m->container_count++;
		pthread_mutex_unlock(&m->lock);
		pt_container_unref(drop);
	}
	*ret_c = c;
	return 0;
}

int pt_models_container(struct pt_models *m, const struct pt_node *node, struct pt_container **ret_c)
{
	int rc = pt_models_container_try(m, node, ret_c);

	return rc > 0 ? -EIO : rc;
}

/* ---- building ---- */

struct scan {
	struct pt_models *m;
	uint64_t parent;
	struct pt_node *nodes;          /* containers */
	uint32_t count, cap;
	struct pt_node plan;            /* id 0: none */
	struct pt_buf sign;
	int rc;
};

/* The node that a listed name stands for. The listing and this are no snapshot: where another file has been renamed onto the name since, it is that one, so
 * that a name which was there all the time is never missing; and a node that has been seen under its earlier name is not taken twice. */
static int scan_node(struct scan *s, const char *name, uint64_t id, struct pt_node *ret_node)
{
	uint32_t i;
	int rc;

	rc = pt_node_get(s->m->repo, id, ret_node);
	if (!rc && ret_node->parent == s->parent && strcmp(ret_node->name, name) == 0)
		return 0;
	if (rc < 0 && rc != -ENOENT)
		return rc;
	if (!rc)
		pt_node_done(ret_node);
	rc = pt_node_lookup(s->m->repo, s->parent, name, ret_node);
	if (rc < 0)
		return rc;
	for (i = 0; i < s->count; i++)
		if (s->nodes[i].id == ret_node->id) {
			pt_node_done(&s->nodes[i]);
			memmove(s->nodes + i, s->nodes + i + 1, (--s->count - i) * sizeof(*s->nodes));
			break;
		}
	return 0;
}

static int scan_child(void *ctx, const char *name, uint64_t id, enum pt_node_kind kind)
{
	struct scan *s = ctx;
	struct pt_node n, *more;
	bool plan = kind == PT_NODE_FILE && strcmp(name, PT_PLAN_NAME) == 0;

	if (name[0] == 1 || (kind != PT_NODE_CONTAINER && !plan))
		return 0;
	s->rc = scan_node(s, name, id, &n);
	if (s->rc < 0) {
		if (s->rc == -ENOENT)
			s->rc = 0;
		return s->rc ? 1 : 0;
	}
	pt_buf_append_str(&s->sign, n.name);
	pt_buf_append_le64(&s->sign, n.id);
	pt_buf_append(&s->sign, n.blob.id.b, sizeof(n.blob.id.b));
	if (plan && n.kind == PT_NODE_FILE) {
		pt_node_done(&s->plan);
		s->plan = n;
		return 0;
	}
	if (n.kind != PT_NODE_CONTAINER) {
		pt_node_done(&n);
		return 0;
	}
	if (s->count == s->cap) {
		more = pt_reallocarray(s->nodes, s->cap ? 2 * (size_t)s->cap : 8, sizeof(*more));
		if (!more) {
			pt_node_done(&n);
			s->rc = pt_fail_nomem();
			return 1;
		}
		s->nodes = more;
		s->cap = s->cap ? 2 * s->cap : 8;
	}
	s->nodes[s->count++] = n;
	return 0;
}

static void scan_done(struct scan *s)
{
	uint32_t i;

	for (i = 0; i < s->count; i++)
		pt_node_done(&s->nodes[i]);
	free(s->nodes);
	pt_node_done(&s->plan);
	pt_buf_done(&s->sign);
}

static int plan_load(struct pt_models *m, const struct pt_node *n, struct pt_model_dir *d)
{
	struct pt_data_range r = { .blob = n->blob, .len = n->size };
	int rc;

	if (n->size > PLAN_BYTES_MAX) {
		rc = pt_fail(EINVAL, "tp_plan.json has %llu bytes: no plan is that long", (unsigned long long)n->size);
	} else {
		r.buf = pt_malloc(n->size + 1);
		if (!r.buf)
			return pt_fail_nomem();
		rc = pt_node_pin(m->repo, n);
		if (!rc) {
			rc = n->size ? pt_data_read(&pt_repo_store(m->repo)->data, &r, 1) : 0;
			pt_node_unpin(m->repo, n);
		}
		if (!rc)
			rc = pt_tp_plan_parse(r.buf, r.len, &d->plan);
		free(r.buf);
	}
	if (rc != -EINVAL)
		return rc;
	d->plan_error = pt_strdup(pt_fail_sentence());
	pt_fail_clear();
	return d->plan_error ? 0 : pt_fail_nomem();
}

static struct pt_model_dir *dir_known(struct pt_models *m, uint64_t node, const uint64_t *seen, const uint64_t *signature)
{
	struct pt_model_dir *d;
	size_t i;

	for (i = 0; i < m->dir_count; i++) {
		d = m->dir[i];
		if (d->node != node || (seen && d->seen != *seen) || (signature && d->signature != *signature))
			continue;
		to_front((void **)m->dir, i);
		__atomic_add_fetch(&d->refs, 1, __ATOMIC_RELAXED);
		return d;
	}
	return NULL;
}

/* The file as the index before had it, if it is still the same one. Both are walked in the order of names; *at moves along. */
static struct pt_container *still_same(const struct pt_model_dir *before, uint32_t *at, const struct pt_node *node)
{
	const struct pt_model_file *f;
	int order;

	for (; before && *at < before->file_count; (*at)++) {
		f = &before->files[*at];
		order = strcmp(f->name, node->name);
		if (order > 0)
			break;
		if (order == 0 && f->node == node->id && pt_id_compare(&f->c->blob.id, &node->blob.id) == 0)
			return pt_container_ref(f->c);
	}
	return NULL;
}

/* Of the first such file. */
static int note_damage(struct pt_model_dir *d, const char *name)
{
	pt_fail_clear();
	if (!d->damaged)
		d->damaged = pt_strdup(name);
	return d->damaged ? 0 : pt_fail_nomem();
}

static int dir_build(struct pt_models *m, struct scan *s, struct pt_model_dir **ret_dir)
{
	struct pt_model_dir *d = pt_calloc(1, sizeof(*d)), *before;
	uint32_t i, at = 0;
	int rc = 0;

	if (!d)
		return pt_fail_nomem();
	d->refs = 1;
	d->node = s->parent;
	d->signature = pt_hash64(s->sign.data, s->sign.len);
	d->files = pt_calloc(s->count ? s->count : 1, sizeof(*d->files));
	if (!d->files)
		rc = pt_fail_nomem();
	pthread_mutex_lock(&m->lock);
	before = dir_known(m, s->parent, NULL, NULL);
	pthread_mutex_unlock(&m->lock);
	for (i = 0; !rc && i < s->count; i++) {
		struct pt_model_file *f = &d->files[d->file_count];

		f->c = still_same(before, &at, &s->nodes[i]);
		if (!f->c)
			rc = pt_models_container_try(m, &s->nodes[i], &f->c);
		if (rc > 0) {
			rc = note_damage(d, s->nodes[i].name);
			continue;
		}
		if (rc < 0)
			break;
		d->file_count++;
		f->node = s->nodes[i].id;
		f->name = pt_strdup(s->nodes[i].name);
		if (!f->name)
			rc = pt_fail_nomem();
	}
	pt_model_dir_unref(before);
	if (!rc && s->plan.id)
		rc = plan_load(m, &s->plan, d);
	if (!rc)
		rc = pt_model_dir_name_tensors(d);
	if (rc < 0) {
		pt_model_dir_unref(d);
		return rc;
	}
	*ret_dir = d;
	return 0;
}

/* seen or signature: NULL. */
static void dir_remember(struct pt_models *m, struct pt_model_dir *d, uint64_t seen)
{
	struct pt_model_dir *drop = NULL;
	size_t i;

	pthread_mutex_lock(&m->lock);
	for (i = 0; i < m->dir_count && m->dir[i]->node != d->node; i++)
		;
	if (i == m->dir_count && i < DIRS)
		m->dir[m->dir_count++] = NULL;
	else if (i == DIRS)
		i--;
	drop = m->dir[i];
	__atomic_add_fetch(&d->refs, 1, __ATOMIC_RELAXED);
	d->seen = seen;
	m->dir[i] = d;
	to_front((void **)m->dir, i);
	pthread_mutex_unlock(&m->lock);
	pt_model_dir_unref(drop);
}

static int dir_once(struct pt_models *m, uint64_t node, struct pt_model_dir **ret_dir)
{
	struct scan s = { .m = m, .parent = node };
	uint64_t version, signature;
	struct pt_model_dir *d;
	int rc;

	/* Asked before the scan: what changes meanwhile makes the next caller look again. */
	rc = pt_node_models_version(m->repo, node, &version);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&m->lock);
	d = dir_known(m, node, &version, NULL);
	pthread_mutex_unlock(&m->lock);
	if (d) {
		*ret_dir = d;
		return 0;
	}
	rc = pt_node_list(m->repo, node, "", scan_child, &s);
	if (rc >= 0)
		rc = s.rc;
	if (rc >= 0 && s.sign.failed)
		rc = pt_fail_nomem();
	if (rc < 0)
		goto out;
	signature = pt_hash64(s.sign.data, s.sign.len);
	pthread_mutex_lock(&m->lock);
	d = dir_known(m, node, NULL, &signature);
	if (d)
		d->seen = version;
	pthread_mutex_unlock(&m->lock);
	rc = 0;
	if (!d) {
		rc = dir_build(m, &s, &d);
		if (!rc && !d->damaged)         /* what is put in its place in the store changes no version */
			dir_remember(m, d, version);
	}
	if (!rc)
		*ret_dir = d;
out:
	scan_done(&s);
	return rc;
}

int pt_models_dir_sound(struct pt_models *m, uint64_t node, struct pt_model_dir **ret_dir)
{
	int rc, try;

	for (try = 0; try < 10; try++) {
		rc = dir_once(m, node, ret_dir);
		if (rc != -ESTALE && rc != -ENOENT)     /* a file was replaced while it was being read */
			break;
	}
	return rc;
}

int pt_models_dir(struct pt_models *m, uint64_t node, struct pt_model_dir **ret_dir)
{
	struct pt_model_dir *d;
	int rc;

	rc = pt_models_dir_sound(m, node, &d);
	if (rc == 0 && d->damaged) {
		rc = pt_fail(EIO, "the record of '%s', in the same directory, is damaged or missing: restore that file, write it again, or remove it", d->damaged);
		pt_model_dir_unref(d);
	}
	if (rc == 0)
		*ret_dir = d;
	return rc;
}

int pt_models_plan_dim(struct pt_models *m, uint64_t key_node, struct pt_request *req)
{
	const struct pt_axis *tp = pt_layout_find(&req->layout, PT_AXIS_TP);
	struct pt_model_dir *d = NULL;
	struct pt_node key, plan;
	int32_t dim = -1;
	int rc;

	if (!tp || tp->dim >= 0 || key_node == PT_NODE_ROOT)
		return 0;
	rc = pt_node_get(m->repo, key_node, &key);
	if (rc < 0)
		return rc;
	rc = pt_node_lookup(m->repo, key.parent, PT_PLAN_NAME, &plan);
	if (!rc) {
		pt_node_done(&plan);
		rc = pt_models_dir_sound(m, key.parent, &d);
	}
	if (!rc && d->plan_error)
		rc = pt_fail(EINVAL, "%s", d->plan_error);
	else if (!rc)
		dim = pt_tp_plan_dim(d->plan, key.name);
	pt_model_dir_unref(d);
	pt_node_done(&key);
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	req->has_plan_dim = dim >= 0;
	req->plan_dim = dim;
	return 0;
}
