# Unit tests of the tensor layer; the flags to use are shown in the top Makefile.am.
# The conformance cases A01..A101 (docs/CONFORMANCE.md) share tests/lib/case.c.
check_LIBRARIES += tests/lib/libcase.a
tests_lib_libcase_a_SOURCES = tests/lib/case.c tests/lib/case.h
tests_lib_libcase_a_CPPFLAGS = $(UNIT_CPPFLAGS)
CASE_LIBS = tests/lib/libcase.a $(UNIT_LIBS)

check_PROGRAMS += tests/unit/test_conformance_full
tests_unit_test_conformance_full_SOURCES = tests/unit/test_conformance_full.c
tests_unit_test_conformance_full_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_conformance_full_LDADD = $(CASE_LIBS)
TESTS += tests/unit/test_conformance_full

check_PROGRAMS += tests/unit/test_conformance_axes
tests_unit_test_conformance_axes_SOURCES = tests/unit/test_conformance_axes.c
tests_unit_test_conformance_axes_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_conformance_axes_LDADD = $(CASE_LIBS)
TESTS += tests/unit/test_conformance_axes
