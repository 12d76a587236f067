# End-to-end tests with real clients: scripts/test runs them, with pytest.
EXTRA_DIST += \
	tests/e2e/clients.py \
	tests/e2e/conftest.py \
	tests/e2e/daemons.py \
	tests/e2e/harm.py \
	tests/e2e/pytest.ini \
	tests/e2e/test_hostile_attributes.py \
	tests/e2e/test_hostile_models.py \
	tests/e2e/test_hostile_mounts.py \
	tests/e2e/test_cached.py \
	tests/e2e/test_checkpoint.py \
	tests/e2e/test_cli.py \
	tests/e2e/test_crash.py \
	tests/e2e/test_edges.py \
	tests/e2e/test_formats.py \
	tests/e2e/test_full_disk.py \
	tests/e2e/test_kept.py \
	tests/e2e/test_messages.py \
	tests/e2e/test_metadata.py \
	tests/e2e/test_remote.py \
	tests/e2e/test_sealed.py \
	tests/e2e/test_remote_faults.py \
	tests/e2e/test_remote_names.py \
	tests/e2e/test_remote_news.py \
	tests/e2e/test_models_aliases.py \
	tests/e2e/test_models_clients.py \
	tests/e2e/test_models_files.py \
	tests/e2e/test_models_odd.py \
	tests/e2e/test_models_onefile.py \
	tests/e2e/test_models_publish.py \
	tests/e2e/test_models_ranks.py \
	tests/e2e/test_models_renames.py \
	tests/e2e/test_models_shards.py \
	tests/e2e/test_open_wait.py \
	tests/e2e/test_revisions.py \
	tests/e2e/test_write_rows.py \
	tests/e2e/test_writers.py
