# Sources of the format layer: libptio_core_la_SOURCES += src/format/x.c src/format/x.h
libptio_core_la_SOURCES += \
	src/format/format.c src/format/format.h \
	src/format/obj.c src/format/obj.h \
	src/format/parse.h src/format/parse_int.h \
	src/format/parse_bin.c src/format/parse_obj.c \
	src/format/serve.c src/format/serve.h src/format/serve_int.h \
	src/format/serve_npy.c src/format/serve_obj.c src/format/serve_pickle.c \
	src/format/serve_pt.c src/format/serve_safetensors.c
include src/format/pt.mk
