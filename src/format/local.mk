# Sources of the format layer: libptio_core_la_SOURCES += src/format/x.c src/format/x.h
libptio_core_la_SOURCES += \
	src/format/format.c src/format/format.h \
	src/format/obj.c src/format/obj.h \
	src/format/json_walk.c src/format/json_walk.h \
	src/format/npy_header.c src/format/npy_header.h \
	src/format/parse.c src/format/parse.h src/format/parse_int.h \
	src/format/parse_bin.c src/format/parse_npy.c src/format/parse_obj.c \
	src/format/parse_safetensors.c \
	src/format/serve.c src/format/serve.h src/format/serve_int.h \
	src/format/serve_npy.c src/format/serve_obj.c src/format/serve_pickle.c \
	src/format/serve_pt.c src/format/serve_safetensors.c
include src/format/pt.mk
