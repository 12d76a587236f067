# ptiofs, the FUSE driver.
bin_PROGRAMS += fs/ptiofs
fs_ptiofs_SOURCES = \
	fs/alias.c \
	fs/attr.c \
	fs/cached.c \
	fs/cached_int.h \
	fs/caller.c \
	fs/container.c \
	fs/control.c \
	fs/dir.c \
	fs/errors.c \
	fs/file.c \
	fs/file_int.h \
	fs/file_read.c \
	fs/file_seal.c \
	fs/fs.h \
	fs/fill.c \
	fs/gc.c \
	fs/heap.c \
	fs/inode.c \
	fs/intent.c \
	fs/io.c \
	fs/listing.c \
	fs/lookup.c \
	fs/main.c \
	fs/many.c \
	fs/moments.c \
	fs/names.c \
	fs/news.c \
	fs/open.c \
	fs/options.c \
	fs/options.h \
	fs/pages.c \
	fs/reader.c \
	fs/rename.c \
	fs/sealed.c \
	fs/session.c \
	fs/shards.c \
	fs/spool.c \
	fs/stored.c \
	fs/told.c \
	fs/transport.c \
	fs/transport.h \
	fs/upload.c \
	fs/view.c \
	fs/where.c \
	fs/writer.c \
	fs/writer_attr.c \
	fs/writer_int.h \
	fs/xattr.c
fs_ptiofs_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/fs $(FUSE3_CFLAGS)
fs_ptiofs_LDADD = libptio_core.la $(FUSE3_LIBS) -lpthread
fs_ptiofs_LDFLAGS = $(AM_LDFLAGS) $(FUSE3_RPATH)
dist_man_MANS += man/ptiofs.1
