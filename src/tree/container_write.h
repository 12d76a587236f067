/* tree/container_write.h - a container that is being written: what container_write.c gathers and container_seal.c ends. Internal to tree/. One thread. */
#ifndef PT_TREE_CONTAINER_WRITE_H
#define PT_TREE_CONTAINER_WRITE_H

#include "base/error.h"
#include "tree/container.h"

#define PT_STORAGE_NO_TENSOR UINT32_MAX

struct pt_container_storage {
	uint64_t bytes;
	uint32_t whole;                 /* tensor that is all of it, row-major; or PT_STORAGE_NO_TENSOR */
	uint64_t at;                    /* in the file, once bytes of it have come */
	uint64_t seen;                  /* bytes that have come */
	uint32_t crc;                   /* of all before it, then, when it is complete, of it */
};

/* PT_WRITER_FEEDING -> PT_WRITER_SEALED (blobs stored) -> PT_WRITER_PUBLISHED; PT_WRITER_FEEDING -> PT_WRITER_FAILED (content or store) -> PT_WRITER_REPLAYED. */
enum pt_writer_state { PT_WRITER_FEEDING, PT_WRITER_SEALED, PT_WRITER_PUBLISHED, PT_WRITER_FAILED, PT_WRITER_REPLAYED };

/* What is stored of the file's bytes: none, the header is not complete; the only tensor's; all. */
enum pt_writer_body { PT_BODY_HEADER, PT_BODY_OBJECT, PT_BODY_VERBATIM };

struct pt_container_writer {
	enum pt_writer_state state;
	enum pt_writer_body body;
	int error;
	char sentence[PT_FAIL_SENTENCE_MAX];
	bool content;                   /* PT_WRITER_FAILED: for what the bytes are */
	struct pt_repo *repo;
	char *dir_key;
	struct pt_parser *parser;
	struct pt_container_image image;        /* its size: bytes that are in the literals, or stored */
	bool head;                      /* PT_BODY_VERBATIM: what comes before the first payload goes to the literals, too */
	struct pt_buf storages;         /* struct pt_container_storage */
	uint64_t fed;
	const uint8_t *chunk;           /* being fed */
	uint64_t chunk_used;            /* bytes of it that have been taken */
	uint64_t chunk_len;
	struct pt_object_writer *open;
	struct pt_part part;            /* what open was sealed as */
	struct pt_blob_ref blob;        /* PT_WRITER_SEALED: of the image */
	uint64_t blob_bytes;
	int publish_rc;                 /* of the last try */
};

static inline struct pt_container_storage *pt_writer_storage(struct pt_container_writer *w, uint32_t i)
{
	return (struct pt_container_storage *)(void *)w->storages.data + i;
}

static inline uint32_t pt_writer_storage_count(const struct pt_container_writer *w)
{
	return (uint32_t)(w->storages.len / sizeof(struct pt_container_storage));
}

static inline struct pt_container_tensor *pt_writer_tensor(struct pt_container_writer *w, uint32_t i)
{
	return (struct pt_container_tensor *)(void *)w->image.tensors.data + i;
}

/* ---- container_write.c ---- */
/* The error stays; store: not for what the bytes are. rc. */
int pt_writer_fail(struct pt_container_writer *w, int rc, bool store);
/* What it failed with, or that it has been used up. */
int pt_writer_failed(const struct pt_container_writer *w);
/* PT_BODY_OBJECT: begins the object. */
int pt_writer_object_open(struct pt_container_writer *w);

#endif
