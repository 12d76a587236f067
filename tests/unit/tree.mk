# Unit tests of the tree layer; the flags to use are shown in the top Makefile.am.

check_PROGRAMS += tests/unit/test_container
TESTS += tests/unit/test_container

tests_unit_test_container_SOURCES = tests/unit/test_container.c
tests_unit_test_container_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_container_LDADD = $(UNIT_LIBS)

check_PROGRAMS += tests/unit/test_tree
TESTS += tests/unit/test_tree

tests_unit_test_tree_SOURCES = tests/unit/test_tree.c
tests_unit_test_tree_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_tree_LDADD = $(UNIT_LIBS)

check_PROGRAMS += tests/unit/test_tp_plan
TESTS += tests/unit/test_tp_plan

tests_unit_test_tp_plan_SOURCES = tests/unit/test_tp_plan.c
tests_unit_test_tp_plan_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_tp_plan_LDADD = $(UNIT_LIBS)

check_PROGRAMS += tests/unit/test_rank_view
TESTS += tests/unit/test_rank_view

tests_unit_test_rank_view_SOURCES = tests/unit/test_rank_view.c
tests_unit_test_rank_view_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_rank_view_LDADD = $(UNIT_LIBS)

check_PROGRAMS += tests/unit/test_container_old
TESTS += tests/unit/test_container_old

tests_unit_test_container_old_SOURCES = tests/unit/test_container_old.c
tests_unit_test_container_old_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_container_old_LDADD = $(UNIT_LIBS)
