# make bench-header: what a file of many tensors costs before its first payload byte.
EXTRA_PROGRAMS += tests/bench/bench_header
tests_bench_bench_header_SOURCES = tests/bench/bench_header.c
tests_bench_bench_header_LDADD = libptio_core.la
CLEANFILES += tests/bench/bench_header$(EXEEXT)

.PHONY: bench-header
bench-header: tests/bench/bench_header$(EXEEXT)
	$(AM_V_at)tests/bench/bench_header$(EXEEXT)
