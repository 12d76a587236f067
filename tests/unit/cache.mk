# Unit tests of the cache layer; the flags to use are shown in the top Makefile.am.

check_PROGRAMS += tests/unit/test_cache
TESTS += tests/unit/test_cache

tests_unit_test_cache_SOURCES = tests/unit/test_cache.c
tests_unit_test_cache_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_cache_LDADD = $(UNIT_LIBS)
