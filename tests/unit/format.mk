# Unit tests of the format layer; the flags to use are shown in the top Makefile.am.
EXTRA_DIST += tests/unit/format_support.h tests/unit/sha256.h tests/data/mooncake

check_PROGRAMS += tests/unit/test_serve
tests_unit_test_serve_SOURCES = tests/unit/test_serve.c
tests_unit_test_serve_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_serve_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_serve

check_PROGRAMS += tests/unit/test_obj
tests_unit_test_obj_SOURCES = tests/unit/test_obj.c
tests_unit_test_obj_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_obj_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_obj

check_PROGRAMS += tests/unit/test_parse_safetensors
tests_unit_test_parse_safetensors_SOURCES = tests/unit/test_parse_safetensors.c
tests_unit_test_parse_safetensors_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_parse_safetensors_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_parse_safetensors

check_PROGRAMS += tests/unit/test_parse_npy
tests_unit_test_parse_npy_SOURCES = tests/unit/test_parse_npy.c
tests_unit_test_parse_npy_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_parse_npy_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_parse_npy

check_PROGRAMS += tests/unit/test_parse_obj
tests_unit_test_parse_obj_SOURCES = tests/unit/test_parse_obj.c
tests_unit_test_parse_obj_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_parse_obj_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_parse_obj

include tests/unit/format_pt.mk
