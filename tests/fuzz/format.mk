# Fuzz targets of the format layer; tests/fuzz/local.mk shows how one is added.
EXTRA_DIST += tests/fuzz/format_fuzz.h tests/fuzz/make_corpus.py

check_PROGRAMS += tests/fuzz/fuzz_safetensors
fuzz_targets += tests/fuzz/fuzz_safetensors
tests_fuzz_fuzz_safetensors_SOURCES = tests/fuzz/fuzz_safetensors.c
tests_fuzz_fuzz_safetensors_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests
tests_fuzz_fuzz_safetensors_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_safetensors_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
EXTRA_DIST += tests/fuzz/corpus/safetensors

check_PROGRAMS += tests/fuzz/fuzz_npy
fuzz_targets += tests/fuzz/fuzz_npy
tests_fuzz_fuzz_npy_SOURCES = tests/fuzz/fuzz_npy.c
tests_fuzz_fuzz_npy_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests
tests_fuzz_fuzz_npy_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_npy_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
EXTRA_DIST += tests/fuzz/corpus/npy

check_PROGRAMS += tests/fuzz/fuzz_obj
fuzz_targets += tests/fuzz/fuzz_obj
tests_fuzz_fuzz_obj_SOURCES = tests/fuzz/fuzz_obj.c
tests_fuzz_fuzz_obj_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests
tests_fuzz_fuzz_obj_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_obj_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
EXTRA_DIST += tests/fuzz/corpus/obj

check_PROGRAMS += tests/fuzz/fuzz_bin
fuzz_targets += tests/fuzz/fuzz_bin
tests_fuzz_fuzz_bin_SOURCES = tests/fuzz/fuzz_bin.c
tests_fuzz_fuzz_bin_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests
tests_fuzz_fuzz_bin_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_bin_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
EXTRA_DIST += tests/fuzz/corpus/bin

include tests/fuzz/pt.mk
