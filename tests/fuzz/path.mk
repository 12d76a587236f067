# Fuzz targets of the path layer.
check_PROGRAMS += tests/fuzz/fuzz_path
fuzz_targets += tests/fuzz/fuzz_path
tests_fuzz_fuzz_path_SOURCES = tests/fuzz/fuzz_path.c
tests_fuzz_fuzz_path_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_path_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
EXTRA_DIST += tests/fuzz/corpus/path
