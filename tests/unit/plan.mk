# Unit tests of the plan layer.
check_PROGRAMS += tests/unit/test_plan
tests_unit_test_plan_SOURCES = tests/unit/test_plan.c tests/unit/tiling.c tests/unit/tiling.h tests/unit/rng.h
tests_unit_test_plan_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_plan_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/test_plan
