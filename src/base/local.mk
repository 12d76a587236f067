libptio_core_la_SOURCES += \
	src/base/alloc.c src/base/alloc.h \
	src/base/budget.c src/base/budget.h \
	src/base/buf.c src/base/buf.h \
	src/base/crc.c \
	src/base/error.c src/base/error.h \
	src/base/file_state.c src/base/file_state.h \
	src/base/hash.c src/base/hash.h \
	src/base/hash_zeros.c src/base/hash_zeros.h \
	src/base/id.c src/base/id.h \
	src/base/io.c src/base/io.h \
	src/base/log.c src/base/log.h \
	src/base/process.c src/base/process.h \
	src/base/size.h \
	src/base/text.c src/base/text.h \
	src/base/thread.c src/base/thread.h
