# Unit tests of the layout layer.
check_PROGRAMS += tests/unit/test_layout
tests_unit_test_layout_SOURCES = tests/unit/test_layout.c tests/unit/rng.h
tests_unit_test_layout_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_layout_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_layout
