/* format/serve_pt.c - the zip around served torch files, layout "PT1" of docs/SPEC.md: stored records, sizes in the local headers,
 * payloads aligned, zip64 only where a field overflows. data.pkl itself is made in serve_pickle.c. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "base/size.h"
#include "format/serve_int.h"

#define ZIP_FLAGS 0x0800                /* names are UTF-8 */
#define ZIP_DATE 0x0021                 /* 1980-01-01 */
#define ZIP_MAX32 0xffffffffu
#define LARGE_PAYLOAD (64 * PT_KIB)     /* from here on aligned to pages */

static uint32_t clamp32(uint64_t v)
{
	return v >= ZIP_MAX32 ? ZIP_MAX32 : (uint32_t)v;
}

/* What the local header of a record and its entry in the directory say alike, in this order. */
static void put_fields(struct pt_buf *to, uint16_t version, uint32_t crc, uint64_t size, size_t name_len, uint64_t extra_len)
{
	pt_buf_append_le16(to, version);
	pt_buf_append_le16(to, ZIP_FLAGS);
	pt_buf_append_le16(to, 0);
	pt_buf_append_le16(to, 0);
	pt_buf_append_le16(to, ZIP_DATE);
	pt_buf_append_le32(to, crc);
	pt_buf_append_le32(to, clamp32(size));
	pt_buf_append_le32(to, clamp32(size));
	pt_buf_append_le16(to, (uint16_t)name_len);
	pt_buf_append_le16(to, (uint16_t)extra_len);
}

static void put_directory_entry(struct pt_buf *dir, const char *name, size_t name_len, uint32_t crc, uint64_t size, uint64_t local_off)
{
	uint16_t wide = (uint16_t)((size >= ZIP_MAX32 ? 16 : 0) + (local_off >= ZIP_MAX32 ? 8 : 0));
	uint16_t version = wide ? 45 : 20;

	pt_buf_append_le32(dir, 0x02014b50);
	pt_buf_append_le16(dir, version);
	put_fields(dir, version, crc, size, name_len, wide ? wide + 4u : 0);
	pt_buf_append_zeros(dir, 2 + 2 + 2 + 4);        /* comment, disk, attributes */
	pt_buf_append_le32(dir, clamp32(local_off));
	pt_buf_append(dir, name, name_len);
	if (wide) {
		pt_buf_append_le16(dir, 1);
		pt_buf_append_le16(dir, wide);
		if (size >= ZIP_MAX32) {
			pt_buf_append_le64(dir, size);
			pt_buf_append_le64(dir, size);
		}
		if (local_off >= ZIP_MAX32)
			pt_buf_append_le64(dir, local_off);
	}
}

/* Local header and padding of a record whose data follows, and its entry in the directory. */
static void begin_record(struct pt_serve_builder *b, struct pt_buf *dir, const char *name, uint32_t crc, uint64_t size, uint64_t align)
{
	struct pt_buf *out = &b->out.literals;
	uint64_t local_off = pt_serve_at(b);
	size_t name_len = strlen(name);
	uint64_t wide = size >= ZIP_MAX32 ? 20 : 0;
	uint64_t pad = -(local_off + 30 + name_len + wide + 4) & (align - 1);

	put_directory_entry(dir, name, name_len, crc, size, local_off);
	pt_buf_append_le32(out, 0x04034b50);
	put_fields(out, wide ? 45 : 20, crc, size, name_len, wide + 4 + pad);
	pt_buf_append(out, name, name_len);
	if (wide) {
		pt_buf_append_le16(out, 1);
		pt_buf_append_le16(out, 16);
		pt_buf_append_le64(out, size);
		pt_buf_append_le64(out, size);
	}
	pt_buf_append_str(out, "FB");
	pt_buf_append_le16(out, (uint16_t)pad);
	pt_serve_pad(b, pad);
}

static void put_record(struct pt_serve_builder *b, struct pt_buf *dir, const char *name, const void *data, size_t len)
{
	begin_record(b, dir, name, (uint32_t)crc32_z(0, data, len), len, 64);
	pt_buf_append(&b->out.literals, data, len);
}

static void put_end(struct pt_serve_builder *b, uint64_t dir_off, uint64_t dir_size, uint64_t records)
{
	struct pt_buf *out = &b->out.literals;
	uint16_t records16 = records >= 0xffff ? 0xffff : (uint16_t)records;

	if (records >= 0xffff || dir_off >= ZIP_MAX32 || dir_size >= ZIP_MAX32) {
		pt_buf_append_le32(out, 0x06064b50);
		pt_buf_append_le64(out, 44);
		pt_buf_append_le16(out, 45);
		pt_buf_append_le16(out, 45);
		pt_buf_append_le32(out, 0);
		pt_buf_append_le32(out, 0);
		pt_buf_append_le64(out, records);
		pt_buf_append_le64(out, records);
		pt_buf_append_le64(out, dir_size);
		pt_buf_append_le64(out, dir_off);
		pt_buf_append_le32(out, 0x07064b50);
		pt_buf_append_le32(out, 0);
		pt_buf_append_le64(out, dir_off + dir_size);
		pt_buf_append_le32(out, 1);
	}
	pt_buf_append_le32(out, 0x06054b50);
	pt_buf_append_le16(out, 0);
	pt_buf_append_le16(out, 0);
	pt_buf_append_le16(out, records16);
	pt_buf_append_le16(out, records16);
	pt_buf_append_le32(out, clamp32(dir_size));
	pt_buf_append_le32(out, clamp32(dir_off));
	pt_buf_append_le16(out, 0);
}

int pt_serve_pt(const struct pt_serve_tensor *tensors, const uint64_t *bytes, size_t count, int as_dict, const struct pt_buf *pickle,
		struct pt_serve_builder *b)
{
	struct pt_buf pkl = PT_BUF_INIT, dir = PT_BUF_INIT;
	char name[48];
	uint64_t dir_off;
	size_t i;
	int rc = 0;

	if (!pickle) {
		pt_serve_pickle(tensors, bytes, count, as_dict, &pkl);
		pickle = &pkl;
	}
	if (pt_buf_failed(pickle)) {
		rc = pt_fail_nomem();
		goto out;
	}
	if (pickle->len >= ZIP_MAX32) {
		rc = pt_fail(EFBIG, "the description of %zu tensors is larger than 4 GiB; read fewer at a time", count);
		goto out;
	}
	put_record(b, &dir, "archive/data.pkl", pickle->data, pickle->len);
	put_record(b, &dir, "archive/byteorder", "little", 6);
	put_record(b, &dir, "archive/version", "3\n", 2);
	for (i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "archive/data/%zu", i);
		begin_record(b, &dir, name, bytes[i] ? tensors[i].crc32 : 0, bytes[i], bytes[i] >= LARGE_PAYLOAD ? 4096 : 64);
		pt_serve_payload(b, (int32_t)i, bytes[i]);
	}
	dir_off = pt_serve_at(b);
	if (pt_buf_failed(&dir)) {
		rc = pt_fail_nomem();
		goto out;
	}
	pt_buf_append(&b->out.literals, dir.data, dir.len);
	put_end(b, dir_off, dir.len, count + 3);
out:
	pt_buf_done(&dir);
	pt_buf_done(&pkl);
	return rc;
}
