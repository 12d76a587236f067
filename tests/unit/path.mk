# Unit tests of the path layer.
check_PROGRAMS += tests/unit/test_path
tests_unit_test_path_SOURCES = tests/unit/test_path.c tests/unit/rng.h
tests_unit_test_path_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_path_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_path
