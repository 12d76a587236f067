# Unit tests of the tensor layer; the flags to use are shown in the top Makefile.am.
# The conformance cases A01..A101 (docs/CONFORMANCE.md) share tests/lib/case.c.
check_LIBRARIES += tests/lib/libcase.a
tests_lib_libcase_a_SOURCES = tests/lib/case.c tests/lib/case.h $(net_support)
tests_lib_libcase_a_CPPFLAGS = $(UNIT_CPPFLAGS)
CASE_LIBS = tests/lib/libcase.a $(UNIT_LIBS)
EXTRA_DIST += tests/lib/suite.h tests/lib/tensor_help.h

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

check_PROGRAMS += tests/unit/test_conformance_shard
tests_unit_test_conformance_shard_SOURCES = tests/unit/test_conformance_shard.c
tests_unit_test_conformance_shard_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_conformance_shard_LDADD = $(CASE_LIBS)
TESTS += tests/unit/test_conformance_shard

check_PROGRAMS += tests/unit/test_conformance_batch
tests_unit_test_conformance_batch_SOURCES = tests/unit/test_conformance_batch.c
tests_unit_test_conformance_batch_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_conformance_batch_LDADD = $(CASE_LIBS)
TESTS += tests/unit/test_conformance_batch

check_PROGRAMS += tests/unit/test_conformance_rest
tests_unit_test_conformance_rest_SOURCES = tests/unit/test_conformance_rest.c
tests_unit_test_conformance_rest_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_conformance_rest_LDADD = $(CASE_LIBS)
TESTS += tests/unit/test_conformance_rest

check_PROGRAMS += tests/unit/test_conformance_bytes
tests_unit_test_conformance_bytes_SOURCES = tests/unit/test_conformance_bytes.c
tests_unit_test_conformance_bytes_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_conformance_bytes_LDADD = $(CASE_LIBS)
TESTS += tests/unit/test_conformance_bytes

check_PROGRAMS += tests/unit/test_matrix
tests_unit_test_matrix_SOURCES = tests/unit/test_matrix.c
tests_unit_test_matrix_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_matrix_LDADD = $(CASE_LIBS)
TESTS += tests/unit/test_matrix

check_PROGRAMS += tests/unit/test_slice
tests_unit_test_slice_SOURCES = tests/unit/test_slice.c
tests_unit_test_slice_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slice_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_slice

check_PROGRAMS += tests/unit/test_request
tests_unit_test_request_SOURCES = tests/unit/test_request.c
tests_unit_test_request_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_request_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_request

check_PROGRAMS += tests/unit/test_view
tests_unit_test_view_SOURCES = tests/unit/test_view.c
tests_unit_test_view_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_view_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_view

check_PROGRAMS += tests/unit/test_upload
tests_unit_test_upload_SOURCES = tests/unit/test_upload.c
tests_unit_test_upload_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_upload_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_upload

check_PROGRAMS += tests/unit/test_promises
tests_unit_test_promises_SOURCES = tests/unit/test_promises.c
tests_unit_test_promises_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_promises_LDADD = $(CASE_LIBS)
TESTS += tests/unit/test_promises
