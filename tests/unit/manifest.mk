# Unit tests of the manifest layer; the flags to use are shown in the top Makefile.am.

EXTRA_DIST += tests/unit/manifest_help.h

check_PROGRAMS += tests/unit/test_commit
tests_unit_test_commit_SOURCES = tests/unit/test_commit.c
tests_unit_test_commit_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_commit_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_commit
