# Sources of the tensor layer: libptio_core_la_SOURCES += src/tensor/x.c src/tensor/x.h
