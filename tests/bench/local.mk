# Benchmarks. They are built and run by a target of their own each, never by make or make check.
EXTRA_PROGRAMS =

include tests/bench/plan.mk
include tests/bench/range.mk
include tests/bench/hash.mk
include tests/bench/header.mk
include tests/bench/meta.mk
include tests/bench/bench.mk
