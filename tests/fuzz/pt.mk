# Fuzz targets of the torch.save parser.
check_PROGRAMS += tests/fuzz/fuzz_pt
fuzz_targets += tests/fuzz/fuzz_pt
tests_fuzz_fuzz_pt_SOURCES = tests/fuzz/fuzz_pt.c
tests_fuzz_fuzz_pt_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_pt_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
EXTRA_DIST += tests/fuzz/corpus/pt

check_PROGRAMS += tests/fuzz/fuzz_pickle
fuzz_targets += tests/fuzz/fuzz_pickle
tests_fuzz_fuzz_pickle_SOURCES = tests/fuzz/fuzz_pickle.c
tests_fuzz_fuzz_pickle_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_pickle_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
EXTRA_DIST += tests/fuzz/corpus/pickle
