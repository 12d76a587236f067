# Unit tests of the tree layer; the flags to use are shown in the top Makefile.am.

check_PROGRAMS += tests/unit/test_container
TESTS += tests/unit/test_container

tests_unit_test_container_SOURCES = tests/unit/test_container.c
tests_unit_test_container_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_container_LDADD = $(UNIT_LIBS)
