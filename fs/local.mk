# ptiofs, the FUSE driver: bin_PROGRAMS += fs/ptiofs, linked with
# libptio_core.la $(FUSE3_LIBS), compiled with $(AM_CPPFLAGS) $(FUSE3_CFLAGS),
# fs_ptiofs_LDFLAGS = $(AM_LDFLAGS) $(FUSE3_RPATH).
