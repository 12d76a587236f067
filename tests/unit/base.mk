# Unit tests of the base layer.
check_PROGRAMS += tests/unit/test_base tests/unit/test_budget
tests_unit_test_base_SOURCES = tests/unit/test_base.c
tests_unit_test_base_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_base_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_base tests/unit/test_budget
tests_unit_test_budget_SOURCES = tests/unit/test_budget.c
tests_unit_test_budget_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_budget_LDADD = $(UNIT_LIBS)
