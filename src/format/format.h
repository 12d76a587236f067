/* format/format.h - the file formats by name, and recognising one by its first bytes. Pure. */
#ifndef PT_FORMAT_FORMAT_H
#define PT_FORMAT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* Order is that of listings. */
enum pt_format { PT_FORMAT_PT, PT_FORMAT_SAFETENSORS, PT_FORMAT_NPY, PT_FORMAT_BIN, PT_FORMAT_OBJ, PT_FORMAT_COUNT };

const char *pt_format_name(enum pt_format f);           /* "pt", "safetensors", "npy", "bin", "obj" */
/* PT_FORMAT_COUNT when unknown. */
enum pt_format pt_format_by_name(const char *name, size_t len);

enum pt_sniff {
	PT_SNIFF_MORE,                  /* too few bytes to tell */
	PT_SNIFF_PT, PT_SNIFF_SAFETENSORS, PT_SNIFF_NPY, PT_SNIFF_OBJ, PT_SNIFF_MANIFEST,
	PT_SNIFF_TORCH_LEGACY, PT_SNIFF_TORCH_TAR, PT_SNIFF_GGUF, PT_SNIFF_ZIP_OTHER,
	PT_SNIFF_RAW                    /* nothing known */
};

#define PT_SNIFF_BYTES 512              /* never more than this many are needed */

/* By content, never by name. at_end: no more bytes will come. */
enum pt_sniff pt_format_sniff(const void *head, size_t len, int at_end);

#endif
