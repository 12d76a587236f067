libptio_core_la_SOURCES += \
	src/tree/container.c src/tree/container.h \
	src/tree/container_code.c \
	src/tree/container_write.c \
	src/tree/tree.h \
	src/tree/name.c \
	src/tree/list.c
