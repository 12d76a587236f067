# Fuzz targets of the tree layer; tests/fuzz/local.mk shows how one is added.
check_PROGRAMS += tests/fuzz/fuzz_container
fuzz_targets += tests/fuzz/fuzz_container
tests_fuzz_fuzz_container_SOURCES = tests/fuzz/fuzz_container.c
tests_fuzz_fuzz_container_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_container_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
EXTRA_DIST += tests/fuzz/corpus/container

check_PROGRAMS += tests/fuzz/fuzz_tp_plan
fuzz_targets += tests/fuzz/fuzz_tp_plan
tests_fuzz_fuzz_tp_plan_SOURCES = tests/fuzz/fuzz_tp_plan.c
tests_fuzz_fuzz_tp_plan_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_tp_plan_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
EXTRA_DIST += tests/fuzz/corpus/tp_plan
