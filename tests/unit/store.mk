# Unit tests of the store layer; the flags to use are shown in the top Makefile.am.
