# make bench: ptio beside what one would take instead; make bench-quick: the same, small, and only counters are checked.
# BENCH_FLAGS: --mib, --rounds, --only; tests/bench/bench.py tells more.
EXTRA_DIST += \
	tests/bench/bench.py \
	tests/bench/measure.py \
	tests/bench/meta.py \
	tests/bench/model.py \
	tests/bench/mooncake_peer.py \
	tests/bench/peers.py \
	tests/bench/remote.py \
	tests/bench/run
bench_programs = \
	fs/ptiofs$(EXEEXT) \
	tests/bench/bench_meta$(EXEEXT) \
	tests/bench/bench_plan$(EXEEXT) \
	tests/bench/bench_range$(EXEEXT) \
	tools/ptio$(EXEEXT) \
	tools/ptiod/ptiod$(EXEEXT)

.PHONY: bench bench-quick
bench: $(bench_programs)
	$(AM_V_at)$(srcdir)/tests/bench/run --build . $(BENCH_FLAGS)
bench-quick: $(bench_programs)
	$(AM_V_at)$(srcdir)/tests/bench/run --build . --quick $(BENCH_FLAGS)
