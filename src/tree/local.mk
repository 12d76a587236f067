libptio_core_la_SOURCES += \
	src/tree/tree.h \
	src/tree/name.c \
	src/tree/list.c
