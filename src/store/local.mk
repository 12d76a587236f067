# Sources of the store layer: libptio_core_la_SOURCES += src/store/x.c src/store/x.h
