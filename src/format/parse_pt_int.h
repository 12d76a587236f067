/* format/parse_pt_int.h - state of the torch.save zip parser; shared by parse_pt.c (stream), parse_pt_local.c (local
 * headers) and parse_pt_end.c (central directory and after). */
#ifndef PT_FORMAT_PARSE_PT_INT_H
#define PT_FORMAT_PARSE_PT_INT_H

#include "format/namemap.h"
#include "format/parse_int.h"
#include "format/pickle.h"

#define PT_ZIP_LOCAL 0x04034b50u
#define PT_ZIP_DESCRIPTOR 0x08074b50u
#define PT_ZIP_CENTRAL 0x02014b50u
#define PT_ZIP_END64 0x06064b50u
#define PT_ZIP_LOCATOR 0x07064b50u
#define PT_ZIP_END 0x06054b50u

#define PT_ZIP_LOCAL_BYTES 30
#define PT_ZIP_CENTRAL_BYTES 46
#define PT_ZIP_END64_BYTES 56
#define PT_ZIP_LOCATOR_BYTES 20
#define PT_ZIP_END_BYTES 22

#define PT_ZIP_FLAG_DESCRIPTOR 0x0008u
#define PT_ZIP_FLAGS 0x0808u            /* the ones torch sets: descriptor, UTF-8 names */
#define PT_ZIP_SMALL_MAX ((uint64_t)4096)       /* version, byteorder and records of unknown size */
#define PT_ZIP_OVER16 0xffffu           /* "see the zip64 field" */
#define PT_ZIP_OVER32 0xffffffffu

enum pt_zip_state {
	PT_ZS_SIGNATURE,                /* 4 bytes that say what comes next */
	PT_ZS_LOCAL,                    /* local header, name, extra */
	PT_ZS_PICKLE,                   /* data.pkl */
	PT_ZS_STORAGE,                  /* data/K */
	PT_ZS_SMALL,                    /* version and byteorder of known size */
	PT_ZS_SKIP,                     /* other records of known size */
	PT_ZS_SCAN,                     /* records of unknown size: up to their descriptor */
	PT_ZS_DESCRIPTOR,
	PT_ZS_CENTRAL,
	PT_ZS_END64,
	PT_ZS_LOCATOR,
	PT_ZS_END
};

enum pt_zip_kind { PT_ZK_PICKLE, PT_ZK_STORAGE, PT_ZK_VERSION, PT_ZK_BYTEORDER, PT_ZK_OTHER };

/* A record as it was streamed, to compare with the central directory. */
struct pt_zip_record {
	uint64_t local_off;
	uint64_t bytes;
	uint32_t crc;                   /* computed */
	uint32_t name_off;              /* in names */
	uint16_t name_len;
};

struct pt_zip {
	struct pt_parse_ctx *ctx;
	enum pt_zip_state state;
	uint64_t at;                    /* file offset of the next byte */
	struct pt_buf acc;              /* the header, descriptor or small record being gathered */
	uint64_t want;                  /* its size as far as known */
	uint64_t item_off;              /* where it began */

	struct pt_zip_record *records;
	size_t record_count, record_cap;
	struct pt_buf names;
	struct pt_namemap name_map;
	size_t prefix_len;              /* of every name, with its '/' */

	/* the record being read; its entry is records[record_count], counted when it ends */
	enum pt_zip_kind kind;
	uint32_t storage;
	bool descriptor;
	bool sized;                     /* size_known bytes stated by the local header */
	uint64_t size_known;
	uint32_t crc_stated;            /* by the local header, without a descriptor */
	uint64_t left;

	struct pt_pickle *pickle;
	uint8_t *storage_seen;          /* one byte a storage */
	uint32_t storages_seen;
	bool version_seen;

	uint64_t central_off;
	size_t central_count;           /* entries compared */
	bool end64_seen;
	uint64_t end64_off;
};

static inline struct pt_zip_record *pt_zip_current(struct pt_zip *z)
{
	return &z->records[z->record_count];
}

/* Starts gathering want bytes in state; the first have of them stay in acc. */
void pt_zip_gather(struct pt_zip *z, enum pt_zip_state state, uint64_t want, uint64_t have);
/* The record's name for a sentence; valid until the next call in this thread's frame (buf of 100 bytes). */
const char *pt_zip_name(const struct pt_zip *z, const struct pt_zip_record *r, char buf[100]);
/* Finds the zip64 field in an extra field. NULL when there is none. */
const uint8_t *pt_zip_extra64(const uint8_t *extra, size_t len, size_t *ret_len);
/* The refusal of a zip file that does not begin as torch.save's do; first is what it begins with. */
int pt_zip_not_torch(const char *first);
/* All bytes of the record are in. */
int pt_zip_data_done(struct pt_zip *z);
/* acc holds want bytes of a local header, central entry, end record ...; moves on. */
int pt_zip_local(struct pt_zip *z);
int pt_zip_central(struct pt_zip *z);
int pt_zip_end64(struct pt_zip *z);
int pt_zip_locator(struct pt_zip *z);
int pt_zip_end(struct pt_zip *z);

#endif
