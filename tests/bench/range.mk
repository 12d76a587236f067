# Range gets against the plainest means: tests/bench/bench.py runs it, and tests/vm/bench in the test VM.
EXTRA_PROGRAMS += tests/bench/bench_range
tests_bench_bench_range_SOURCES = tests/bench/bench_range.c
tests_bench_bench_range_LDADD = libptio_core.la
CLEANFILES += tests/bench/bench_range$(EXEEXT)
