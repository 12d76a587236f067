# The store layer: two engine contracts, their checked forms, the engines.
libptio_core_la_SOURCES += \
	src/store/data.c \
	src/store/data.h \
	src/store/data_file.c \
	src/store/data_memory.c \
	src/store/done.c \
	src/store/done.h \
	src/store/fault.c \
	src/store/fault.h \
	src/store/fault_rules.c \
	src/store/fault_rules.h \
	src/store/fdcache.c \
	src/store/fdcache.h \
	src/store/file_int.h \
	src/store/file_list.c \
	src/store/file_read.c \
	src/store/file_write.c \
	src/store/meta.c \
	src/store/meta.h \
	src/store/meta_sqlite.c \
	src/store/pins.c \
	src/store/pins.h \
	src/store/refmap.c \
	src/store/refmap.h \
	src/store/sqlite_conn.c \
	src/store/sqlite_conn.h \
	src/store/sqlite_file.c \
	src/store/sqlite_file.h \
	src/store/sqlite_vfs.c \
	src/store/sqlite_vfs.h \
	src/store/store.c \
	src/store/store.h \
	src/store/token.c \
	src/store/token.h
