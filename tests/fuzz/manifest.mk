# Fuzz targets of the manifest layer; tests/fuzz/local.mk shows how one is added.
check_PROGRAMS += tests/fuzz/fuzz_record
fuzz_targets += tests/fuzz/fuzz_record
tests_fuzz_fuzz_record_SOURCES = tests/fuzz/fuzz_record.c
tests_fuzz_fuzz_record_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_record_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
EXTRA_DIST += tests/fuzz/corpus/record

check_PROGRAMS += tests/fuzz/fuzz_describe
fuzz_targets += tests/fuzz/fuzz_describe
tests_fuzz_fuzz_describe_SOURCES = tests/fuzz/fuzz_describe.c
tests_fuzz_fuzz_describe_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_describe_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
EXTRA_DIST += tests/fuzz/corpus/describe
