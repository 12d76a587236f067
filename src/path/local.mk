# Sources of the path layer: libptio_core_la_SOURCES += src/path/x.c src/path/x.h
