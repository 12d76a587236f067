# Sources of the layout layer: libptio_core_la_SOURCES += src/layout/x.c src/layout/x.h
