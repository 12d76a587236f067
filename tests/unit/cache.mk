# Unit tests of the cache layer; the flags to use are shown in the top Makefile.am.

check_PROGRAMS += tests/unit/test_cache tests/unit/test_reserve tests/unit/test_looking tests/unit/test_ahead tests/unit/test_share
TESTS += tests/unit/test_cache tests/unit/test_reserve tests/unit/test_looking tests/unit/test_ahead tests/unit/test_share

tests_unit_test_cache_SOURCES = tests/unit/test_cache.c tests/unit/cache_fixture.h tests/unit/cache_source.h
tests_unit_test_cache_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_cache_LDADD = $(UNIT_LIBS)

tests_unit_test_reserve_SOURCES = tests/unit/test_reserve.c tests/unit/cache_fixture.h tests/unit/cache_source.h
tests_unit_test_reserve_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_reserve_LDADD = $(UNIT_LIBS)

tests_unit_test_looking_SOURCES = tests/unit/test_looking.c tests/unit/cache_source.h
tests_unit_test_looking_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_looking_LDADD = $(UNIT_LIBS)

tests_unit_test_ahead_SOURCES = tests/unit/test_ahead.c tests/unit/ahead_reader.h tests/unit/cache_source.h
tests_unit_test_ahead_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_ahead_LDADD = $(UNIT_LIBS)

tests_unit_test_share_SOURCES = tests/unit/test_share.c tests/unit/ahead_reader.h tests/unit/cache_source.h
tests_unit_test_share_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_share_LDADD = $(UNIT_LIBS)
