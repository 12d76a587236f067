# Tests of several layers together, without a mount.

# The format layer on the command line, for tests/e2e/test_formats.py.
check_PROGRAMS += tests/integ/format_tool
tests_integ_format_tool_SOURCES = tests/integ/format_tool.c
tests_integ_format_tool_LDADD = libptio_core.la $(ZLIB_LIBS)
