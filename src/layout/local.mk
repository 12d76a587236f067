libptio_core_la_SOURCES += \
	src/layout/axis.c src/layout/axis.h \
	src/layout/box.c src/layout/box.h \
	src/layout/dtype.c src/layout/dtype.h
