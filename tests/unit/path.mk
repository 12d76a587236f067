# Unit tests of the path layer; the flags to use are shown in the top Makefile.am.
