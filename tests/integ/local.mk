# Tests of several layers together, without a mount.

# The format layer on the command line, for tests/e2e/test_formats.py.
check_PROGRAMS += tests/integ/format_tool
tests_integ_format_tool_SOURCES = tests/integ/format_tool.c
tests_integ_format_tool_LDADD = libptio_core.la $(ZLIB_LIBS)

# The driver on real mounts.
check_PROGRAMS += tests/integ/fsclient
tests_integ_fsclient_SOURCES = tests/integ/fsclient.c
tests_integ_fsclient_LDADD =
fs_tests = \
	tests/integ/fs_files \
	tests/integ/fs_mount \
	tests/integ/fs_names \
	tests/integ/fs_revisions \
	tests/integ/fs_write
EXTRA_DIST += $(fs_tests) tests/integ/lib.sh
TESTS += $(fs_tests)

# What the scripts say, and what Tab offers at a shell.
EXTRA_DIST += tests/integ/setup_says tests/integ/completion
TESTS += tests/integ/setup_says tests/integ/completion
