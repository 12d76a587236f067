# Tests of the net layer, of the engines over it, and of the daemon: they run real ptiod processes.
net_tests = \
	tests/unit/test_batch_away \
	tests/unit/test_net_faults \
	tests/unit/test_net_news \
	tests/unit/test_net_peers \
	tests/unit/test_net_wire \
	tests/unit/test_rdma_plan \
	tests/unit/test_store_away
check_PROGRAMS += $(net_tests)
TESTS += $(net_tests)
net_support = tests/unit/store_support.c tests/unit/store_support.h tests/unit/daemon.c tests/unit/daemon.h tests/unit/rng.h

tests_unit_test_batch_away_SOURCES = tests/unit/test_batch_away.c $(net_support)
tests_unit_test_batch_away_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_batch_away_LDADD = $(UNIT_LIBS)

tests_unit_test_net_faults_SOURCES = tests/unit/test_net_faults.c $(net_support)
tests_unit_test_net_faults_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_net_faults_LDADD = $(UNIT_LIBS)

tests_unit_test_net_news_SOURCES = tests/unit/test_net_news.c tests/unit/raw_peer.c tests/unit/raw_peer.h $(net_support)
tests_unit_test_net_news_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_net_news_LDADD = $(UNIT_LIBS)

tests_unit_test_net_peers_SOURCES = tests/unit/test_net_peers.c tests/unit/raw_peer.c tests/unit/raw_peer.h $(net_support)
tests_unit_test_net_peers_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_net_peers_LDADD = $(UNIT_LIBS)

tests_unit_test_net_wire_SOURCES = tests/unit/test_net_wire.c $(net_support)
tests_unit_test_net_wire_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_net_wire_LDADD = $(UNIT_LIBS)

tests_unit_test_rdma_plan_SOURCES = tests/unit/test_rdma_plan.c $(net_support)
tests_unit_test_rdma_plan_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_rdma_plan_LDADD = $(UNIT_LIBS)

tests_unit_test_store_away_SOURCES = tests/unit/test_store_away.c tests/unit/store_numbers.h $(net_support)
tests_unit_test_store_away_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_away_LDADD = $(UNIT_LIBS)
