# path: names in the tree. Pure.
libptio_core_la_SOURCES += \
	src/path/component.c \
	src/path/internal.h \
	src/path/name.c \
	src/path/path.c \
	src/path/path.h
