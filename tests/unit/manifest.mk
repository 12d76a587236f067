# Unit tests of the manifest layer; the flags to use are shown in the top Makefile.am.

EXTRA_DIST += tests/unit/manifest_help.h

check_PROGRAMS += tests/unit/test_commit tests/unit/test_describe tests/unit/test_group tests/unit/test_node tests/unit/test_object tests/unit/test_pin_gc tests/unit/test_pump tests/unit/test_record
TESTS += tests/unit/test_commit tests/unit/test_describe tests/unit/test_group tests/unit/test_node tests/unit/test_object tests/unit/test_pin_gc tests/unit/test_pump tests/unit/test_record

tests_unit_test_commit_SOURCES = tests/unit/test_commit.c
tests_unit_test_commit_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_commit_LDADD = $(UNIT_LIBS)

tests_unit_test_describe_SOURCES = tests/unit/test_describe.c
tests_unit_test_describe_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_describe_LDADD = $(UNIT_LIBS)

tests_unit_test_group_SOURCES = tests/unit/test_group.c
tests_unit_test_group_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_group_LDADD = $(UNIT_LIBS)

tests_unit_test_node_SOURCES = tests/unit/test_node.c
tests_unit_test_node_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_node_LDADD = $(UNIT_LIBS)

tests_unit_test_object_SOURCES = tests/unit/test_object.c
tests_unit_test_object_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_object_LDADD = $(UNIT_LIBS)

tests_unit_test_pin_gc_SOURCES = tests/unit/test_pin_gc.c
tests_unit_test_pin_gc_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_pin_gc_LDADD = $(UNIT_LIBS)

tests_unit_test_pump_SOURCES = tests/unit/test_pump.c
tests_unit_test_pump_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_pump_LDADD = $(UNIT_LIBS)

tests_unit_test_record_SOURCES = tests/unit/test_record.c
tests_unit_test_record_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_record_LDADD = $(UNIT_LIBS)
