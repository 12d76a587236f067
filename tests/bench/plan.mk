# make bench-plan: what planning costs.
EXTRA_PROGRAMS += tests/bench/bench_plan
tests_bench_bench_plan_SOURCES = tests/bench/bench_plan.c
tests_bench_bench_plan_LDADD = libptio_core.la
CLEANFILES += tests/bench/bench_plan$(EXEEXT)

.PHONY: bench-plan
bench-plan: tests/bench/bench_plan$(EXEEXT)
	$(AM_V_at)tests/bench/bench_plan$(EXEEXT)
