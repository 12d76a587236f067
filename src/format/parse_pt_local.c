/* format/parse_pt_local.c - local headers of a torch.save archive: which record it is, and its size. */
#include "format/parse_pt_int.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/size.h"

#define RECORDS_MAX ((size_t)2 << 20)
#define NAMES_MAX ((size_t)128 << 20)

/* The zip64 field is id 1. Padding that is no well-formed field ends the search. */
const uint8_t *pt_zip_extra64(const uint8_t *extra, size_t len, size_t *ret_len)
{
	size_t off = 0, n;

	while (len - off >= 4) {
		n = pt_get_le16(extra + off + 2);
		if (n > len - off - 4)
			return NULL;
		if (pt_get_le16(extra + off) == 1) {
			*ret_len = n;
			return extra + off + 4;
		}
		off += 4 + n;
	}
	return NULL;
}

int pt_zip_not_torch(const char *first)
{
	return pt_fail(EINVAL, "this zip file begins with %s, not with the data.pkl that torch.save writes first (TorchScript, or packed by "
		       "another program?); save a state dict with torch.save", first);
}

/* Name checks and what the record is. */
static int zip_record_name(struct pt_zip *z, const uint8_t *name, size_t len)
{
	struct pt_zip_record *r = pt_zip_current(z);
	const char *rest;
	size_t rest_len;
	char q[100];
	int rc;

	pt_zip_name(z, r, q);
	if (memchr(name, 0, len))
		return pt_fail(EINVAL, "record %s has a NUL in its name; write the file again", q);
	if (z->record_count == 0) {
		const uint8_t *slash = memchr(name, '/', len);

		if (!slash || slash == name)
			return pt_zip_not_torch(q);
		z->prefix_len = (size_t)(slash - name) + 1;
	} else if (len < z->prefix_len || memcmp(name, z->names.data + z->records[0].name_off, z->prefix_len) != 0) {
		return pt_fail(EINVAL, "record %s is not in the folder of the others; save the file again with torch.save", q);
	}
	rest = (const char *)name + z->prefix_len;
	rest_len = len - z->prefix_len;
#define NAME_IS(s) (rest_len == sizeof(s) - 1 && memcmp(rest, s, sizeof(s) - 1) == 0)
#define NAME_BEGINS(s) (rest_len >= sizeof(s) - 1 && memcmp(rest, s, sizeof(s) - 1) == 0)
	z->kind = NAME_IS("data.pkl") ? PT_ZK_PICKLE : NAME_BEGINS("data/") ? PT_ZK_STORAGE :
		NAME_IS("version") || NAME_IS(".data/version") ? PT_ZK_VERSION : NAME_IS("byteorder") ? PT_ZK_BYTEORDER : PT_ZK_OTHER;
	if (NAME_IS("constants.pkl") || NAME_BEGINS("code/"))
		return pt_fail(EINVAL, "this is a TorchScript archive (it has %s); save the module's state_dict() with torch.save instead", q);
#undef NAME_IS
#undef NAME_BEGINS
	if (z->record_count == 0 && z->kind != PT_ZK_PICKLE)
		return pt_zip_not_torch(q);
	rc = pt_namemap_put(&z->name_map, pt_hash64(name, len), 0, NULL);
	if (rc > 0)
		return pt_fail(EINVAL, "record %s comes twice; save the file again", q);
	if (rc < 0)
		return rc;
	if (z->kind == PT_ZK_STORAGE && !pt_pickle_storage_find(z->pickle, rest + 5, rest_len - 5, &z->storage))
		return pt_fail(EINVAL, "record %s belongs to no storage that data.pkl names; save the file again", q);
	return 0;
}

/* Size, when the local header states one. */
static int zip_record_size(struct pt_zip *z, const uint8_t *h, const uint8_t *extra, size_t extra_len)
{
	uint64_t packed = pt_get_le32(h + 18), size = pt_get_le32(h + 22);
	bool over = packed == PT_ZIP_OVER32 || size == PT_ZIP_OVER32;
	const uint8_t *wide;
	size_t wide_len = 0;
	char q[100];

	wide = pt_zip_extra64(extra, extra_len, &wide_len);
	/* torch states the size in the zip64 field, with zeros in the header and for the packed size; 8 bytes there are its own
	 * note of the offset. */
	if (wide && wide_len >= 16 && (over || (z->descriptor && size == 0 && packed == 0))) {
		size = pt_get_le64(wide);
		packed = pt_get_le64(wide + 8);
	} else if (over) {
		return pt_fail(EINVAL, "record %s lacks its 64-bit size; write the file again", pt_zip_name(z, pt_zip_current(z), q));
	}
	if (packed != size && !(z->descriptor && packed == 0))
		return pt_fail(EINVAL, "record %s has two sizes, %llu and %llu bytes; write the file again", pt_zip_name(z, pt_zip_current(z), q),
			       (unsigned long long)packed, (unsigned long long)size);
	z->sized = !z->descriptor || size != 0;
	z->size_known = size;
	return 0;
}

static int zip_record_begin(struct pt_zip *z)
{
	struct pt_zip_record *r = pt_zip_current(z);
	char q[100];

	r->bytes = z->size_known;
	z->left = z->size_known;
	switch (z->kind) {
	case PT_ZK_PICKLE:
		if (z->sized && z->size_known > PT_PICKLE_BYTES_MAX)
			return pt_fail(EFBIG, "data.pkl is over %llu MiB; save fewer tensors, or less besides tensors, in one file",
				       (unsigned long long)(PT_PICKLE_BYTES_MAX >> 20));
		if (z->sized && z->size_known == 0)
			return pt_fail(EINVAL, "data.pkl is empty; save the file again");
		r->bytes = 0;
		z->state = PT_ZS_PICKLE;
		return pt_pickle_create(&z->pickle);
	case PT_ZK_STORAGE:
		r->bytes = z->left = pt_pickle_storage_bytes(z->pickle, z->storage);
		if (z->sized && z->size_known != r->bytes)
			return pt_fail(EINVAL, "record %s has %llu bytes where data.pkl says %llu; save the file again", pt_zip_name(z, r, q),
				       (unsigned long long)z->size_known, (unsigned long long)r->bytes);
		z->state = PT_ZS_STORAGE;
		break;
	case PT_ZK_VERSION:
	case PT_ZK_BYTEORDER:
		if (z->sized && z->size_known > PT_ZIP_SMALL_MAX)
			return pt_fail(EINVAL, "record %s is too long; save the file again", pt_zip_name(z, r, q));
		if (z->sized && z->size_known == 0)
			return pt_fail(EINVAL, "record %s is empty; save the file again", pt_zip_name(z, r, q));
		pt_zip_gather(z, z->sized ? PT_ZS_SMALL : PT_ZS_SCAN, z->sized ? z->size_known : UINT64_MAX, 0);
		return 0;
	case PT_ZK_OTHER:
		if (!z->sized) {
			pt_zip_gather(z, PT_ZS_SCAN, UINT64_MAX, 0);
			return 0;
		}
		z->state = PT_ZS_SKIP;
		break;
	}
	return z->left == 0 ? pt_zip_data_done(z) : 0;
}

int pt_zip_local(struct pt_zip *z)
{
	const uint8_t *h = z->acc.data;
	size_t name_len = pt_get_le16(h + 26), extra_len = pt_get_le16(h + 28);
	unsigned int flags = pt_get_le16(h + 6), method = pt_get_le16(h + 8);
	struct pt_zip_record *records;
	size_t cap;
	char q[100];
	int rc;

	if (z->want == PT_ZIP_LOCAL_BYTES && name_len + extra_len > 0) {
		z->want += name_len + extra_len;
		return 0;
	}
	if (name_len == 0)
		return pt_fail(EINVAL, "a record at byte %llu has no name; write the file again", (unsigned long long)z->item_off);
	if (z->record_count >= RECORDS_MAX || z->names.len + name_len > NAMES_MAX)
		return pt_fail(EFBIG, "the file has more than %zu records; save fewer tensors in one file", RECORDS_MAX);
	if (z->record_count >= z->record_cap) {
		cap = z->record_cap ? z->record_cap * 2 : 16;
		records = pt_reallocarray(z->records, cap, sizeof(*records));
		if (!records)
			return pt_fail_nomem();
		z->records = records;
		z->record_cap = cap;
	}
	*pt_zip_current(z) = (struct pt_zip_record){ .local_off = z->item_off, .name_off = (uint32_t)z->names.len, .name_len = (uint16_t)name_len };
	pt_buf_append(&z->names, h + PT_ZIP_LOCAL_BYTES, name_len);
	if (pt_buf_failed(&z->names))
		return pt_fail_nomem();
	if (method != 0)
		return pt_fail(EINVAL, "record %s is compressed (method %u), which torch cannot load in place either; save the file again with torch.save",
			       pt_zip_name(z, pt_zip_current(z), q), method);
	if (flags & ~PT_ZIP_FLAGS)
		return pt_fail(EINVAL, "record %s has zip flags 0x%04x (encrypted or patched?); save the file again with torch.save",
			       pt_zip_name(z, pt_zip_current(z), q), flags);
	z->descriptor = flags & PT_ZIP_FLAG_DESCRIPTOR;
	z->crc_stated = pt_get_le32(h + 14);
	rc = zip_record_name(z, h + PT_ZIP_LOCAL_BYTES, name_len);
	if (rc < 0)
		return rc;
	rc = zip_record_size(z, h, h + PT_ZIP_LOCAL_BYTES + name_len, extra_len);
	if (rc < 0)
		return rc;
	return zip_record_begin(z);
}
