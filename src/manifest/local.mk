# Sources of the manifest layer: libptio_core_la_SOURCES += src/manifest/x.c src/manifest/x.h
