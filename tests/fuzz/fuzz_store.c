/* tests/fuzz/fuzz_store.c - fault specs and sizes as any text, and a pin file of any bytes. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/fault_rules.h"
#include "store/pins.h"
#include "store/store.h"
#include "store/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[256];
static int dirfd_of_pins = -1;
static struct pt_token token;           /* keeps the file alive */

static void remove_dir(void)
{
	pt_token_remove(dirfd_of_pins, false, &token);
	rmdir(dir);
}

static void query_pins(const uint8_t *data, size_t size)
{
	struct pt_blob_ref refs[2] = { { .kind = PT_BLOB_PLAIN }, { .kind = PT_BLOB_TENSOR } };
	struct pt_pins *pins;
	bool pinned[2], expected = false;

	if (dirfd_of_pins < 0) {
		const char *tmp = getenv("TMPDIR");

		snprintf(dir, sizeof(dir), "%s/ptio-fuzz-XXXXXX", tmp && *tmp ? tmp : "/tmp");
		if (!mkdtemp(dir) || (dirfd_of_pins = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
		    pt_token_create(dirfd_of_pins, false, &token) < 0)
			abort();
		atexit(remove_dir);
	}
	if (ftruncate(token.fd, 0) < 0 || pwrite(token.fd, data, size, 0) != (ssize_t)size)
		abort();
	if (size >= 16)
		memcpy(refs[1].id.b, data, 16);
	else
		refs[1].id.b[0] = 1;
	refs[0].id.b[0] = 2;
	for (size_t i = 0; i + PT_PINS_SLOT <= size; i += PT_PINS_SLOT)
		if (memcmp(data + i, refs[1].id.b, 16) == 0 && data[i + 16] == PT_BLOB_TENSOR)
			expected = true;
	if (pt_pins_create(dirfd_of_pins, &pins) < 0)
		return;
	if (pt_pins_query(pins, refs, 2, pinned) < 0 || pinned[1] != expected)
		abort();
	pt_pins_free(pins);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pt_fault_rules *rules = NULL;
	uint64_t bytes;
	char *text;

	if (size > 65536)
		return 0;
	text = malloc(size + 1);
	if (!text)
		return 0;
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	if (pt_fault_rules_parse(text, &rules) == 0)
		pt_fault_rules_free(rules);
	(void)pt_size_parse(text, &bytes);
	free(text);
	query_pins(data, size);
	return 0;
}
