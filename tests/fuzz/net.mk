# Fuzz targets of the net layer.
check_PROGRAMS += tests/fuzz/fuzz_wire
fuzz_targets += tests/fuzz/fuzz_wire
tests_fuzz_fuzz_wire_SOURCES = tests/fuzz/fuzz_wire.c
tests_fuzz_fuzz_wire_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_wire_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
EXTRA_DIST += tests/fuzz/corpus/wire
