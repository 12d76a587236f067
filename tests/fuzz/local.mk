# Fuzz targets. Each defines LLVMFuzzerTestOneInput() in tests/fuzz/fuzz_x.c and
# has a corpus in tests/fuzz/corpus/x/. With --enable-fuzzers they are libFuzzer
# programs, to be run by hand (make fuzz FUZZ_SECONDS=60); without it
# standalone.c gives them a main() that replays the corpus, and changed copies
# of it, as a test. A layer's .mk adds one so:
#   check_PROGRAMS += tests/fuzz/fuzz_x
#   fuzz_targets += tests/fuzz/fuzz_x
#   tests_fuzz_fuzz_x_SOURCES = tests/fuzz/fuzz_x.c
#   tests_fuzz_fuzz_x_LDADD = $(FUZZ_LIBS)
#   tests_fuzz_fuzz_x_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
#   EXTRA_DIST += tests/fuzz/corpus/x

fuzz_targets =
EXTRA_DIST += tests/fuzz/standalone.c

if FUZZERS
FUZZ_LIBS = libptio_core.la
else
FUZZ_LIBS = libptio_core.la tests/fuzz/libstandalone.a
check_LIBRARIES += tests/fuzz/libstandalone.a
tests_fuzz_libstandalone_a_SOURCES = tests/fuzz/standalone.c
TESTS += $(fuzz_targets)
endif

include tests/fuzz/base.mk
include tests/fuzz/layout.mk
include tests/fuzz/plan.mk
include tests/fuzz/format.mk
include tests/fuzz/net.mk
include tests/fuzz/store.mk
include tests/fuzz/manifest.mk
include tests/fuzz/tensor.mk
include tests/fuzz/path.mk
include tests/fuzz/tree.mk

FUZZ_SECONDS = 60
.PHONY: fuzz
if FUZZERS
fuzz: $(fuzz_targets)
	$(AM_V_at)for p in $(fuzz_targets); do \
		n=`basename $$p`; n=$${n#fuzz_}; \
		mkdir -p fuzz-found/$$n || exit 1; \
		echo "fuzzing $$n for $(FUZZ_SECONDS) s"; \
		./$$p -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=1024 \
			-artifact_prefix=fuzz-found/ fuzz-found/$$n \
			'$(srcdir)'/tests/fuzz/corpus/$$n || exit 1; \
	done
else
fuzz:
	@echo 'configure with --enable-fuzzers CC=clang first'; exit 1
endif
