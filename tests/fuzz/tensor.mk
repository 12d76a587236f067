# Fuzz targets of the tensor layer; tests/fuzz/local.mk shows how one is added.
check_PROGRAMS += tests/fuzz/fuzz_upload
fuzz_targets += tests/fuzz/fuzz_upload
tests_fuzz_fuzz_upload_SOURCES = tests/fuzz/fuzz_upload.c
tests_fuzz_fuzz_upload_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_upload_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
EXTRA_DIST += tests/fuzz/corpus/upload
