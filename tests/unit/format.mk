# Unit tests of the format layer; the flags to use are shown in the top Makefile.am.
EXTRA_DIST += tests/unit/format_support.h tests/unit/sha256.h

check_PROGRAMS += tests/unit/test_serve
tests_unit_test_serve_SOURCES = tests/unit/test_serve.c
tests_unit_test_serve_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_serve_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_serve
