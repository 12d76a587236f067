/* format/parse_pt.c - torch.save zip archives as a stream: local headers, records, descriptors.
 *
 * data.pkl comes first and tells the size of every storage, so records need no sizes in their local headers (torch writes
 * none). Everything streamed is noted and compared with the central directory at the end (parse_pt_end.c), because
 * torch.load trusts only that: a file with two different views is refused. Layout of what torch writes: docs/SPEC.md.
 *
 * Invariant: acc.len <= want whenever feed returns; want > acc.len in the states that gather. */
#include "format/parse_pt_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/size.h"

#define SCAN_TAIL 12                    /* bytes of a descriptor that prove it: signature, crc, size */

static const uint8_t zeros[4096];

/* --- small helpers -------------------------------------------------------- */

void pt_zip_gather(struct pt_zip *z, enum pt_zip_state state, uint64_t want, uint64_t have)
{
	if (have == 0)
		pt_buf_reset(&z->acc);
	z->state = state;
	z->want = want;
	if (state == PT_ZS_SIGNATURE || state == PT_ZS_LOCATOR || state == PT_ZS_DESCRIPTOR)
		z->item_off = z->at - have;
}

const char *pt_zip_name(const struct pt_zip *z, const struct pt_zip_record *r, char buf[100])
{
	const uint8_t *s = z->names.data + r->name_off;
	size_t n = r->name_len < 96 ? r->name_len : 96;

	for (size_t i = 0; i < n; i++)
		buf[i] = s[i] >= 0x20 && s[i] < 0x7f ? (char)s[i] : '?';
	buf[n] = '\0';
	return buf;
}

static uint32_t crc_add(uint32_t crc, const uint8_t *data, uint64_t len)
{
	uint64_t bit = 1;
	uint32_t run;

	if (data)
		return pt_crc32(crc, data, len);
	run = (uint32_t)crc32(0, zeros, 1);
	/* Zeros: CRCs of runs of 1, 2, 4 ... zero bytes, joined as len's bits say. */
	for (; len > 0; len >>= 1, bit <<= 1) {
		if (len & 1)
			crc = (uint32_t)crc32_combine(crc, run, (z_off_t)bit);
		if (len > 1)
			run = (uint32_t)crc32_combine(run, run, (z_off_t)bit);
	}
	return crc;
}

/* A CRC of 0 means that the writer computed none, as torch can be told to. */
static int zip_check_crc(struct pt_zip *z, uint32_t stated)
{
	char q[100];

	if (stated != 0 && stated != pt_zip_current(z)->crc)
		return pt_fail(EINVAL, "record %s is damaged: its CRC-32 is %08x and its bytes give %08x; write the file again",
			       pt_zip_name(z, pt_zip_current(z), q), stated, pt_zip_current(z)->crc);
	return 0;
}

/* --- the end of a record -------------------------------------------------- */

static int zip_pickle_done(struct pt_zip *z)
{
	uint32_t n = pt_pickle_storage_count(z->pickle);
	int rc;

	z->storage_seen = pt_calloc(n ? n : 1, 1);
	if (!z->storage_seen)
		return pt_fail_nomem();
	rc = pt_pickle_announce(z->pickle, z->ctx);
	if (rc < 0)
		return rc;
	pt_pickle_trim(z->pickle);
	return pt_parse_header_done(z->ctx);
}

static int zip_check_small(struct pt_zip *z, const uint8_t *s, size_t len)
{
	uint64_t version = 0;
	size_t i;

	while (len > 0 && (s[len - 1] == '\n' || s[len - 1] == '\r' || s[len - 1] == ' '))
		len--;
	if (z->kind == PT_ZK_BYTEORDER) {
		if (len == 3 && memcmp(s, "big", 3) == 0)
			return pt_fail(EINVAL, "the file was saved on a big-endian machine; load it and save it again on a little-endian one");
		if (len != 6 || memcmp(s, "little", 6) != 0)
			return pt_fail(EINVAL, "the byteorder record of the file is neither \"little\" nor \"big\"; save the file again");
		return 0;
	}
	if (z->kind != PT_ZK_VERSION)
		return 0;
	for (i = 0; i < len && i < 6 && s[i] >= '0' && s[i] <= '9'; i++)
		version = version * 10 + (s[i] - '0');
	if (len == 0 || i < len || version < 1 || version > 10)
		return pt_fail(EINVAL, "the version record of the file is not a number from 1 to 10; save it with a torch that this ptio knows");
	z->version_seen = true;
	return 0;
}

static int zip_record_done(struct pt_zip *z)
{
	int rc = 0;

	if (z->kind == PT_ZK_PICKLE) {
		rc = zip_pickle_done(z);
	} else if (z->kind == PT_ZK_STORAGE) {
		z->storage_seen[z->storage] = 1;
		z->storages_seen++;
	}
	if (rc < 0)
		return rc;
	z->record_count++;
	pt_zip_gather(z, PT_ZS_SIGNATURE, 4, 0);
	return 0;
}

/* All bytes of the record are in. */
int pt_zip_data_done(struct pt_zip *z)
{
	int rc;

	if (z->descriptor) {
		pt_zip_gather(z, PT_ZS_DESCRIPTOR, 16, 0);
		return 0;
	}
	rc = zip_check_crc(z, z->crc_stated);
	return rc < 0 ? rc : zip_record_done(z);
}

static int zip_signature(struct pt_zip *z);

/* 16 bytes with 32-bit sizes or 24 with 64-bit ones. torch takes 24 for sizes or offsets from 4 GiB on, other writers whenever
 * the local header has a zip64 field; the sizes themselves tell which it is. */
static int zip_descriptor(struct pt_zip *z)
{
	const uint8_t *d = z->acc.data;
	uint64_t bytes = pt_zip_current(z)->bytes;
	bool wide, same;
	char q[100];
	int rc;

	if (pt_get_le32(d) != PT_ZIP_DESCRIPTOR)
		return pt_fail(EINVAL, "record %s does not end at byte %llu, where its size of %llu says; write the file again",
			       pt_zip_name(z, pt_zip_current(z), q), (unsigned long long)z->item_off, (unsigned long long)bytes);
	if (bytes >= PT_ZIP_OVER32) {
		wide = true;
	} else if (bytes > 0) {
		wide = pt_get_le32(d + 12) == 0;
	} else {
		/* Zeros either way: what follows tells. */
		if (z->want < 20) {
			z->want = 20;
			return 0;
		}
		wide = !(d[16] == 'P' && d[17] == 'K');
	}
	if (wide && z->want < 24) {
		z->want = 24;
		return 0;
	}
	same = wide ? pt_get_le64(d + 8) == bytes && pt_get_le64(d + 16) == bytes : pt_get_le32(d + 8) == bytes && pt_get_le32(d + 12) == bytes;
	if (!same)
		return pt_fail(EINVAL, "record %s states another size than its %llu bytes; write the file again",
			       pt_zip_name(z, pt_zip_current(z), q), (unsigned long long)bytes);
	rc = zip_check_crc(z, pt_get_le32(d + 4));
	if (rc < 0)
		return rc;
	if (wide || z->want == 16)
		return zip_record_done(z);
	/* 20 bytes were gathered and the last 4 are the next signature. */
	rc = zip_record_done(z);
	if (rc < 0)
		return rc;
	memmove(z->acc.data, z->acc.data + 16, 4);
	z->acc.len = 4;
	z->item_off = z->at - 4;
	return zip_signature(z);
}

static int zip_signature(struct pt_zip *z)
{
	uint32_t sig = pt_get_le32(z->acc.data);

	if (sig == PT_ZIP_LOCAL && z->central_count == 0) {
		pt_zip_gather(z, PT_ZS_LOCAL, PT_ZIP_LOCAL_BYTES, 4);
	} else if (sig == PT_ZIP_CENTRAL && z->record_count > 0) {
		if (z->central_count == 0)
			z->central_off = z->item_off;
		pt_zip_gather(z, PT_ZS_CENTRAL, PT_ZIP_CENTRAL_BYTES, 4);
	} else if (sig == PT_ZIP_END64 && z->central_count > 0) {
		pt_zip_gather(z, PT_ZS_END64, PT_ZIP_END64_BYTES, 4);
	} else if (sig == PT_ZIP_END && z->central_count > 0) {
		pt_zip_gather(z, PT_ZS_END, PT_ZIP_END_BYTES, 4);
	} else if (z->record_count == 0) {
		return pt_zip_not_torch("no record");
	} else {
		return pt_fail(EINVAL, "the zip file is damaged at byte %llu: no record or directory begins there; write it again",
			       (unsigned long long)z->item_off);
	}
	return 0;
}

/* --- feeding -------------------------------------------------------------- */

static int zip_feed_pickle(struct pt_zip *z, const uint8_t *data, uint64_t len, uint64_t *ret_used)
{
	struct pt_zip_record *r = pt_zip_current(z);
	size_t used = 0;
	int done;

	if (z->sized)
		len = pt_size_min(len, z->size_known - r->bytes);
	if (!data) {
		data = zeros;
		len = pt_size_min(len, sizeof(zeros));
	}
	done = pt_pickle_feed(z->pickle, data, len, &used);
	if (done < 0)
		return done;
	r->crc = crc_add(r->crc, data, used);
	r->bytes += used;
	*ret_used = used;
	z->at += used;
	if (z->sized && (done == 1) != (r->bytes == z->size_known))
		return pt_fail(EINVAL, "data.pkl ends %s its record does; save the file again", done == 1 ? "before" : "after");
	return done == 1 ? pt_zip_data_done(z) : 0;
}

static int zip_feed_bytes(struct pt_zip *z, const uint8_t *data, uint64_t len, uint64_t *ret_used)
{
	struct pt_zip_record *r = pt_zip_current(z);
	int rc = 0;

	len = pt_size_min(len, z->left);
	if (z->state == PT_ZS_STORAGE)
		rc = pt_parse_data(z->ctx, z->storage, r->bytes - z->left, data, len);
	if (rc < 0)
		return rc;
	r->crc = crc_add(r->crc, data, len);
	z->left -= len;
	z->at += len;
	*ret_used = len;
	return z->left == 0 ? pt_zip_data_done(z) : 0;
}

/* One byte at a time, until a descriptor that fits what came before it. */
static int zip_scan(struct pt_zip *z)
{
	struct pt_zip_record *r = pt_zip_current(z);
	uint64_t bytes = z->acc.len - SCAN_TAIL;
	const uint8_t *d;
	uint32_t crc;
	char q[100];
	int rc;

	if (z->acc.len < SCAN_TAIL)
		return 0;
	d = z->acc.data + bytes;
	if (pt_get_le32(d) == PT_ZIP_DESCRIPTOR && pt_get_le32(d + 8) == bytes) {
		crc = crc_add(0, z->acc.data, bytes);
		if (pt_get_le32(d + 4) == crc || pt_get_le32(d + 4) == 0) {
			r->crc = crc;
			r->bytes = bytes;
			rc = zip_check_small(z, z->acc.data, bytes);
			if (rc < 0)
				return rc;
			memmove(z->acc.data, d, SCAN_TAIL);
			z->acc.len = SCAN_TAIL;
			pt_zip_gather(z, PT_ZS_DESCRIPTOR, 16, SCAN_TAIL);
			return 0;
		}
	}
	if (bytes >= PT_ZIP_SMALL_MAX)
		return pt_fail(EINVAL, "record %s states no size and does not end within %llu bytes; write the file again",
			       pt_zip_name(z, r, q), (unsigned long long)PT_ZIP_SMALL_MAX);
	return 0;
}

static int zip_gathered(struct pt_zip *z)
{
	struct pt_zip_record *r;
	int rc;

	switch (z->state) {
	case PT_ZS_SIGNATURE:
		return zip_signature(z);
	case PT_ZS_LOCAL:
		return pt_zip_local(z);
	case PT_ZS_SMALL:
		r = pt_zip_current(z);
		r->crc = crc_add(0, z->acc.data, z->acc.len);
		rc = zip_check_small(z, z->acc.data, z->acc.len);
		return rc < 0 ? rc : pt_zip_data_done(z);
	case PT_ZS_DESCRIPTOR:
		return zip_descriptor(z);
	case PT_ZS_CENTRAL:
		return pt_zip_central(z);
	case PT_ZS_END64:
		return pt_zip_end64(z);
	case PT_ZS_LOCATOR:
		return pt_zip_locator(z);
	default:
		return pt_zip_end(z);
	}
}

static int pt_zip_feed(void *state, const uint8_t *data, uint64_t len, uint64_t *ret_used)
{
	struct pt_zip *z = state;
	bool scan = z->state == PT_ZS_SCAN;
	uint64_t n;

	if (z->state == PT_ZS_PICKLE)
		return zip_feed_pickle(z, data, len, ret_used);
	if (z->state == PT_ZS_STORAGE || z->state == PT_ZS_SKIP)
		return zip_feed_bytes(z, data, len, ret_used);
	n = pt_parse_collect(&z->acc, scan ? z->acc.len + 1 : z->want, data, len);
	if (pt_buf_failed(&z->acc))
		return pt_fail_nomem();
	z->at += n;
	*ret_used = n;
	if (scan)
		return zip_scan(z);
	return z->acc.len == z->want ? zip_gathered(z) : 0;
}

/* --- making and ending ---------------------------------------------------- */

static int pt_zip_create(struct pt_parse_ctx *ctx, void **ret_state)
{
	struct pt_zip *z = pt_calloc(1, sizeof(*z));

	if (!z)
		return pt_fail_nomem();
	z->ctx = ctx;
	pt_zip_gather(z, PT_ZS_SIGNATURE, 4, 0);
	*ret_state = z;
	return 0;
}

static int pt_zip_ended(void *state)
{
	const struct pt_zip *z = state;
	char q[100];

	switch (z->state) {
	case PT_ZS_PICKLE: case PT_ZS_STORAGE: case PT_ZS_SMALL: case PT_ZS_SKIP: case PT_ZS_SCAN: case PT_ZS_DESCRIPTOR:
		return pt_fail(EINVAL, "the file ends at byte %llu, inside record %s; write it whole", (unsigned long long)z->at,
			       pt_zip_name(z, &z->records[z->record_count], q));
	case PT_ZS_SIGNATURE: case PT_ZS_LOCAL:
		return pt_fail(EINVAL, "the file ends at byte %llu, before its zip directory; write it whole", (unsigned long long)z->at);
	default:
		return pt_fail(EINVAL, "the file ends at byte %llu, inside its zip directory; write it whole", (unsigned long long)z->at);
	}
}

static void pt_zip_free(void *state)
{
	struct pt_zip *z = state;

	if (!z)
		return;
	pt_buf_done(&z->acc);
	pt_buf_done(&z->names);
	free(z->records);
	free(z->storage_seen);
	pt_namemap_done(&z->name_map);
	pt_pickle_free(z->pickle);
	free(z);
}

const struct pt_parse_ops pt_parse_ops_pt = {
	.format = PT_FORMAT_PT,
	.create = pt_zip_create,
	.feed = pt_zip_feed,
	.end = pt_zip_ended,
	.free = pt_zip_free,
};
