# Tests that need RDMA devices: built with the others, run in tests/vm/vm.
check_PROGRAMS += tests/vm/test_rdma tests/vm/test_rdma_write
tests_vm_test_rdma_SOURCES = tests/vm/test_rdma.c tests/unit/raw_peer.c tests/unit/raw_peer.h $(net_support)
tests_vm_test_rdma_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_vm_test_rdma_LDADD = $(UNIT_LIBS)
check_PROGRAMS += tests/vm/test_rdma_counts
tests_vm_test_rdma_counts_SOURCES = tests/vm/test_rdma_counts.c $(net_support)
tests_vm_test_rdma_counts_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_vm_test_rdma_counts_LDADD = $(UNIT_LIBS)
tests_vm_test_rdma_write_SOURCES = tests/vm/test_rdma_write.c tests/unit/raw_peer.c tests/unit/raw_peer.h $(net_support)
tests_vm_test_rdma_write_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_vm_test_rdma_write_LDADD = $(UNIT_LIBS)
EXTRA_DIST += tests/vm/conformance tests/vm/test_mount.sh tests/vm/test_names.sh
