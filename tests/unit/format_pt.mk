# Unit tests of the torch.save parser. tests/data/make_pt.py writes the files that they read.
EXTRA_DIST += tests/unit/pt_support.h tests/data/make_pt.py tests/data/pt

check_PROGRAMS += tests/unit/test_parse_pt
tests_unit_test_parse_pt_SOURCES = tests/unit/test_parse_pt.c
tests_unit_test_parse_pt_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_parse_pt_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_parse_pt

check_PROGRAMS += tests/unit/test_pickle
tests_unit_test_pickle_SOURCES = tests/unit/test_pickle.c
tests_unit_test_pickle_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_pickle_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_pickle
