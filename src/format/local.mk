# Sources of the format layer: libptio_core_la_SOURCES += src/format/x.c src/format/x.h
