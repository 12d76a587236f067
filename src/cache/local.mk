# Files in memory: materialised views, read-ahead, and the threads of both.
libptio_core_la_SOURCES += \
	src/cache/ahead.c src/cache/ahead.h \
	src/cache/cache.c src/cache/cache.h src/cache/cache_int.h src/cache/fill.c \
	src/cache/reserve.c \
	src/cache/memory.c src/cache/memory.h \
	src/cache/share.c src/cache/share.h \
	src/cache/wait.c \
	src/cache/work.c src/cache/work.h
