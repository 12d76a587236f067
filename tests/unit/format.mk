# Unit tests of the format layer; the flags to use are shown in the top Makefile.am.
