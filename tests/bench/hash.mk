# make bench-hash: the three hashes of an object, one by one and in one pass.
EXTRA_PROGRAMS += tests/bench/bench_hash
tests_bench_bench_hash_SOURCES = tests/bench/bench_hash.c
tests_bench_bench_hash_LDADD = libptio_core.la
CLEANFILES += tests/bench/bench_hash$(EXEEXT)

.PHONY: bench-hash
bench-hash: tests/bench/bench_hash$(EXEEXT)
	$(AM_V_at)tests/bench/bench_hash$(EXEEXT)
