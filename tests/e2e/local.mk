# End-to-end tests with real clients (pytest): EXTRA_DIST += tests/e2e/x.py.
