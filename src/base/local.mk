# Sources of the base layer: libptio_core_la_SOURCES += src/base/x.c src/base/x.h
