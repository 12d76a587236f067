# Unit tests of the store layer.
store_tests = \
	tests/unit/test_store_arena \
	tests/unit/test_store_cache \
	tests/unit/test_store_data \
	tests/unit/test_store_fault \
	tests/unit/test_store_full \
	tests/unit/test_store_index \
	tests/unit/test_store_ledger \
	tests/unit/test_store_meta \
	tests/unit/test_store_objects \
	tests/unit/test_store_owner \
	tests/unit/test_store_refused \
	tests/unit/test_store_reserve \
	tests/unit/test_store_snapshots \
	tests/unit/test_store_uri
check_PROGRAMS += $(store_tests)
TESTS += $(store_tests)
store_support = tests/unit/store_support.c tests/unit/store_support.h tests/unit/daemon.c tests/unit/daemon.h tests/unit/rng.h

tests_unit_test_store_arena_SOURCES = tests/unit/test_store_arena.c $(store_support)
tests_unit_test_store_arena_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_arena_LDADD = $(UNIT_LIBS)

tests_unit_test_store_cache_SOURCES = tests/unit/test_store_cache.c tests/unit/store_numbers.h $(store_support)
tests_unit_test_store_cache_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_cache_LDADD = $(UNIT_LIBS)

tests_unit_test_store_data_SOURCES = tests/unit/test_store_data.c $(store_support)
tests_unit_test_store_data_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_data_LDADD = $(UNIT_LIBS)

tests_unit_test_store_fault_SOURCES = tests/unit/test_store_fault.c $(store_support)
tests_unit_test_store_fault_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_fault_LDADD = $(UNIT_LIBS)

tests_unit_test_store_full_SOURCES = tests/unit/test_store_full.c $(store_support)
tests_unit_test_store_full_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_full_LDADD = $(UNIT_LIBS)

tests_unit_test_store_index_SOURCES = tests/unit/test_store_index.c $(store_support)
tests_unit_test_store_index_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_index_LDADD = $(UNIT_LIBS)

tests_unit_test_store_ledger_SOURCES = tests/unit/test_store_ledger.c $(store_support)
tests_unit_test_store_ledger_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_ledger_LDADD = $(UNIT_LIBS)

tests_unit_test_store_meta_SOURCES = tests/unit/test_store_meta.c $(store_support)
tests_unit_test_store_meta_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_meta_LDADD = $(UNIT_LIBS)

tests_unit_test_store_objects_SOURCES = tests/unit/test_store_objects.c $(store_support)
tests_unit_test_store_objects_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_objects_LDADD = $(UNIT_LIBS)

tests_unit_test_store_owner_SOURCES = tests/unit/test_store_owner.c $(store_support)
tests_unit_test_store_owner_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_owner_LDADD = $(UNIT_LIBS)

tests_unit_test_store_refused_SOURCES = tests/unit/test_store_refused.c $(store_support)
tests_unit_test_store_refused_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_refused_LDADD = $(UNIT_LIBS)

tests_unit_test_store_reserve_SOURCES = tests/unit/test_store_reserve.c $(store_support)
tests_unit_test_store_reserve_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_reserve_LDADD = $(UNIT_LIBS)

tests_unit_test_store_snapshots_SOURCES = tests/unit/test_store_snapshots.c $(store_support)
tests_unit_test_store_snapshots_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_snapshots_LDADD = $(UNIT_LIBS)

tests_unit_test_store_uri_SOURCES = tests/unit/test_store_uri.c $(store_support)
tests_unit_test_store_uri_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_uri_LDADD = $(UNIT_LIBS)
