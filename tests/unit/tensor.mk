# Unit tests of the tensor layer; the flags to use are shown in the top Makefile.am.
