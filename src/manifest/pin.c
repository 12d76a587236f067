/* manifest/pin.c - pins.
 *
 * A reader pins the blobs first and then looks whether the record still names them. A collector reads the garbage record first and then asks for pins.
 * A garbage record appears in the same batch that takes the blobs out of their manifest. So if the reader still saw them named, its pin was there before
 * the garbage record, hence before the collector asked; if not, the reader gives up. No interleaving of processes lets a pinned blob go. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "manifest/checked.h"
#include "manifest/internal.h"

#define PIN_GROUP 64

struct wanted {
	const struct pt_manifest *m;
	bool found;
};

static int pending_holds(void *ctx, const struct pt_pending *p)
{
	struct wanted *w = ctx;
	uint32_t i;

	if (pt_id_compare(&p->set_id, &w->m->set_id))
		return 0;
	for (i = 0; i < p->object_count; i++)
		if (!pt_id_compare(&p->objects[i].blob.id, &w->m->objects[0].blob.id))
			w->found = true;
	return 1;
}

/* A container holds its objects until its own blob is garbage. */
static int check_container(struct pt_repo *repo, const struct pt_manifest *m)
{
	struct pt_node node;
	int rc;

	rc = pt_node_get(repo, m->node, &node);
	if (rc < 0)
		return rc == -ENOENT ? pt_fail(ESTALE, "the file with this tensor has been removed: look again") : rc;
	if (pt_id_compare(&node.blob.id, &m->container))
		rc = pt_fail(ESTALE, "the file with this tensor has been replaced: look again");
	pt_node_done(&node);
	return rc;
}

static int check_current(struct pt_repo *repo, const struct pt_manifest *m)
{
	struct wanted w = { .m = m };
	struct pt_manifest *current;
	struct pt_rkey key;
	uint64_t version;
	int rc;

	if (!pt_id_is_zero(&m->container))
		return check_container(repo, m);

	if (m->pending) {
		rc = pt_pending_list(repo, m->node, pending_holds, &w);
		if (rc < 0)
			return rc;
		return w.found ? 0 : pt_fail(ESTALE, "this part is not pending any more: look again");
	}
	/* Almost always its record is what it was decoded from. */
	pt_rkey_manifest(&key, m->node, m->scope);
	rc = pt_rec_get(repo, &key, NULL, &version);
	if (rc < 0 || (version && version == m->version))
		return rc;
	rc = pt_manifest_get(repo, m->node, m->scope, &current);
	if (rc < 0)
		return rc == -ENOENT ? pt_fail(ESTALE, "this revision has been removed: look again") : rc;
	if (current->revision != m->revision)
		rc = pt_fail(ESTALE, "this revision has been superseded: look again");
	pt_manifest_unref(current);
	return rc;
}

static void unpin_objects(struct pt_repo *repo, const struct pt_manifest *m, uint32_t count)
{
	struct pt_blob_ref refs[PIN_GROUP];
	uint32_t i, n;

	for (i = 0; i < count; i += n) {
		for (n = 0; n < PIN_GROUP && i + n < count; n++)
			refs[n] = m->objects[i + n].blob;
		pt_data_unpin(&repo->store->data, refs, n);
	}
}

static int pin_objects(struct pt_repo *repo, const struct pt_manifest *m)
{
	struct pt_blob_ref refs[PIN_GROUP];
	uint32_t i, n;
	int rc;

	for (i = 0; i < m->object_count; i += n) {
		for (n = 0; n < PIN_GROUP && i + n < m->object_count; n++)
			refs[n] = m->objects[i + n].blob;
		rc = pt_meta_pin(&repo->store->meta, &repo->store->data, refs, n);
		if (rc < 0) {
			unpin_objects(repo, m, i);
			return rc;
		}
	}
	return 0;
}

int pt_manifest_pin(struct pt_repo *repo, struct pt_manifest *m)
{
	struct pt_checked_object *object;
	uint32_t i;
	int rc;

	rc = pin_objects(repo, m);
	if (rc < 0)
		return rc;
	rc = check_current(repo, m);
	for (i = 0; i < m->object_count && !rc; i++)
		rc = pt_checked_get(repo->checked, &m->objects[i], &object);
	if (!rc)
		return 0;
	/* i is one past the get that failed; 0 when the check did. */
	while (i > 1)
		pt_checked_drop(repo->checked, &m->objects[--i - 1].blob.id);
	unpin_objects(repo, m, m->object_count);
	return rc;
}

void pt_manifest_unpin(struct pt_repo *repo, struct pt_manifest *m)
{
	uint32_t i;

	for (i = 0; i < m->object_count; i++)
		pt_checked_drop(repo->checked, &m->objects[i].blob.id);
	unpin_objects(repo, m, m->object_count);
}

int pt_object_hold(struct pt_repo *repo, const struct pt_object *object)
{
	struct pt_checked_object *held;

	return pt_checked_get(repo->checked, object, &held);
}

void pt_object_renew(struct pt_repo *repo, const struct pt_object *object)
{
	struct pt_checked_object *held;

	if (repo->options.verify == PT_VERIFY_OFF)
		return;
	if (pt_checked_get(repo->checked, object, &held) < 0) {
		pt_fail_clear();
		return;
	}
	pt_checked_renew(repo, held, &object->blob);
	pt_checked_put(repo->checked, held);
}

bool pt_object_whole(struct pt_repo *repo, const struct pt_object *object, uint64_t stamp)
{
	struct pt_checked_object *held;
	bool whole;

	if (pt_checked_get(repo->checked, object, &held) < 0) {
		pt_fail_clear();
		return false;
	}
	whole = pt_checked_whole(repo->checked, held, stamp);
	pt_checked_put(repo->checked, held);
	return whole;
}

void pt_object_release(struct pt_repo *repo, const struct pt_object *object)
{
	pt_checked_drop(repo->checked, &object->blob.id);
}

int pt_node_pin(struct pt_repo *repo, const struct pt_node *node)
{
	struct pt_node now;
	int rc;

	if (pt_id_is_zero(&node->blob.id))
		return 0;
	rc = pt_meta_pin(&repo->store->meta, &repo->store->data, &node->blob, 1);
	if (rc < 0)
		return rc;
	rc = pt_node_get(repo, node->id, &now);
	if (!rc) {
		if (pt_id_compare(&now.blob.id, &node->blob.id))
			rc = pt_fail(ESTALE, "the contents of '%s' have been replaced: look again", node->name);
		pt_node_done(&now);
	}
	if (rc < 0)
		pt_data_unpin(&repo->store->data, &node->blob, 1);
	return rc;
}

void pt_node_unpin(struct pt_repo *repo, const struct pt_node *node)
{
	if (!pt_id_is_zero(&node->blob.id))
		pt_data_unpin(&repo->store->data, &node->blob, 1);
}
