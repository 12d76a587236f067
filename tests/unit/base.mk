# Unit tests of the base layer; the flags to use are shown in the top Makefile.am.
