# The test VM. scripts/test runs tests/vm/suite in it once, in the main build; here
# only what is to run there is built.
check_PROGRAMS += tests/vm/verbs_check
tests_vm_verbs_check_SOURCES = tests/vm/verbs_check.c
tests_vm_verbs_check_LDADD = $(RDMA_LIBS) -lpthread
EXTRA_DIST += \
	tests/vm/bench \
	tests/vm/boot \
	tests/vm/e2e \
	tests/vm/faults.py \
	tests/vm/guest \
	tests/vm/job.py \
	tests/vm/kernel \
	tests/vm/programs \
	tests/vm/suite \
	tests/vm/vm
