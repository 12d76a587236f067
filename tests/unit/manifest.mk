# Unit tests of the manifest layer; the flags to use are shown in the top Makefile.am.
