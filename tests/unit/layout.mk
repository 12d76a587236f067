# Unit tests of the layout layer; the flags to use are shown in the top Makefile.am.
