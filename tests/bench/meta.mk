# The client of the metadata part of tests/bench/bench.py.
EXTRA_PROGRAMS += tests/bench/bench_meta
tests_bench_bench_meta_SOURCES = tests/bench/bench_meta.c
CLEANFILES += tests/bench/bench_meta$(EXEEXT)
