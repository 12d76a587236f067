/* format/parse_pt_end.c - central directory, zip64 end record, locator and end record of a torch.save archive.
 *
 * torch.load reads only these and what they point to, so each entry must say what was streamed, in the same order. */
#include "format/parse_pt_int.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"

static int end_bad(const struct pt_zip *z, const char *what)
{
	return pt_fail(EINVAL, "the zip directory of the file is wrong at byte %llu: %s; write the file again", (unsigned long long)z->item_off, what);
}

/* A field that overflowed holds all ones and is the next u64 of the zip64 field. */
static bool wide_take(uint64_t *field, const uint8_t **wide, size_t *wide_len)
{
	if (*field != PT_ZIP_OVER32)
		return true;
	if (!*wide || *wide_len < 8)
		return false;
	*field = pt_get_le64(*wide);
	*wide += 8;
	*wide_len -= 8;
	return true;
}

int pt_zip_central(struct pt_zip *z)
{
	const uint8_t *h = z->acc.data;
	size_t name_len = pt_get_le16(h + 28), extra_len = pt_get_le16(h + 30), comment_len = pt_get_le16(h + 32);
	uint64_t packed, size, local_off;
	const struct pt_zip_record *r;
	const uint8_t *wide;
	size_t wide_len = 0;
	uint32_t crc;

	if (z->want == PT_ZIP_CENTRAL_BYTES && name_len + extra_len + comment_len > 0) {
		z->want += name_len + extra_len + comment_len;
		return 0;
	}
	if (z->central_count >= z->record_count)
		return end_bad(z, "it lists more records than the file has");
	r = &z->records[z->central_count];
	if (name_len != r->name_len || memcmp(h + PT_ZIP_CENTRAL_BYTES, z->names.data + r->name_off, name_len) != 0)
		return end_bad(z, "it names another record than the file has there");
	packed = pt_get_le32(h + 20);
	size = pt_get_le32(h + 24);
	local_off = pt_get_le32(h + 42);
	wide = pt_zip_extra64(h + PT_ZIP_CENTRAL_BYTES + name_len, extra_len, &wide_len);
	if (!wide_take(&size, &wide, &wide_len) || !wide_take(&packed, &wide, &wide_len) || !wide_take(&local_off, &wide, &wide_len))
		return end_bad(z, "a 64-bit size or offset is missing");
	crc = pt_get_le32(h + 16);
	if (size != r->bytes || packed != r->bytes)
		return end_bad(z, "it gives a record another size than it has");
	if (local_off != r->local_off)
		return end_bad(z, "it gives a record another place than it has");
	if (crc != 0 && crc != r->crc)
		return end_bad(z, "it gives a record another CRC-32 than its bytes have");
	if (pt_get_le16(h + 10) != 0 || (pt_get_le16(h + 8) & ~PT_ZIP_FLAGS) || pt_get_le16(h + 34) != 0)
		return end_bad(z, "it calls a record compressed, encrypted or on another disk");
	z->central_count++;
	pt_zip_gather(z, PT_ZS_SIGNATURE, 4, 0);
	return 0;
}

static int end_listed(const struct pt_zip *z)
{
	if (z->central_count != z->record_count)
		return end_bad(z, "it lists fewer records than the file has");
	return 0;
}

int pt_zip_end64(struct pt_zip *z)
{
	const uint8_t *h = z->acc.data;
	int rc = end_listed(z);

	if (rc < 0)
		return rc;
	z->end64_off = z->item_off;
	if (pt_get_le64(h + 4) != PT_ZIP_END64_BYTES - 12 || pt_get_le32(h + 16) != 0 || pt_get_le32(h + 20) != 0)
		return end_bad(z, "its 64-bit end record is not torch's");
	if (pt_get_le64(h + 24) != z->record_count || pt_get_le64(h + 32) != z->record_count)
		return end_bad(z, "its 64-bit end record counts other records");
	if (pt_get_le64(h + 40) != z->end64_off - z->central_off || pt_get_le64(h + 48) != z->central_off)
		return end_bad(z, "its 64-bit end record points elsewhere");
	z->end64_seen = true;
	pt_zip_gather(z, PT_ZS_LOCATOR, PT_ZIP_LOCATOR_BYTES, 0);
	return 0;
}

int pt_zip_locator(struct pt_zip *z)
{
	const uint8_t *h = z->acc.data;

	if (pt_get_le32(h) != PT_ZIP_LOCATOR || pt_get_le32(h + 4) != 0 || pt_get_le64(h + 8) != z->end64_off || pt_get_le32(h + 16) > 1)
		return end_bad(z, "the locator of its 64-bit end record points elsewhere");
	pt_zip_gather(z, PT_ZS_SIGNATURE, 4, 0);
	return 0;
}

/* True value, or all ones where the 64-bit record has it. */
static bool end_field(const struct pt_zip *z, uint64_t field, uint64_t over, uint64_t is)
{
	return field == is || (z->end64_seen && field == over);
}

int pt_zip_end(struct pt_zip *z)
{
	const uint8_t *h = z->acc.data;
	uint64_t central_end = z->end64_seen ? z->end64_off : z->item_off;
	int rc = end_listed(z);

	if (rc < 0)
		return rc;
	if (pt_get_le16(h + 4) != 0 || pt_get_le16(h + 6) != 0)
		return end_bad(z, "the end record is of several disks");
	if (!end_field(z, pt_get_le16(h + 8), PT_ZIP_OVER16, z->record_count) || !end_field(z, pt_get_le16(h + 10), PT_ZIP_OVER16, z->record_count))
		return end_bad(z, "the end record counts other records");
	if (!end_field(z, pt_get_le32(h + 12), PT_ZIP_OVER32, central_end - z->central_off) ||
	    !end_field(z, pt_get_le32(h + 16), PT_ZIP_OVER32, z->central_off))
		return end_bad(z, "the end record points elsewhere");
	if (pt_get_le16(h + 20) != 0)
		return end_bad(z, "a comment follows, which torch.save does not write");
	for (uint32_t i = 0; i < pt_pickle_storage_count(z->pickle); i++) {
		size_t len;
		const char *key;

		if (z->storage_seen[i])
			continue;
		key = pt_pickle_storage_key(z->pickle, i, &len);
		return pt_fail(EINVAL, "the file lacks record data/%.*s, which data.pkl names; save it again", (int)len, key);
	}
	if (!z->version_seen)
		return pt_fail(EINVAL, "the file lacks the version record that torch.load needs; save it again with torch.save");
	return pt_parse_complete(z->ctx);
}
