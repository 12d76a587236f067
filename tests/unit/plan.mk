# Unit tests of the plan layer; the flags to use are shown in the top Makefile.am.
