# Fuzz targets of the store layer.
check_PROGRAMS += tests/fuzz/fuzz_index tests/fuzz/fuzz_store
fuzz_targets += tests/fuzz/fuzz_index tests/fuzz/fuzz_store
tests_fuzz_fuzz_index_SOURCES = tests/fuzz/fuzz_index.c
tests_fuzz_fuzz_index_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_index_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
tests_fuzz_fuzz_store_SOURCES = tests/fuzz/fuzz_store.c
tests_fuzz_fuzz_store_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_store_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
EXTRA_DIST += tests/fuzz/corpus/index tests/fuzz/corpus/store
