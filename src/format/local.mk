# Sources of the format layer: libptio_core_la_SOURCES += src/format/x.c src/format/x.h
libptio_core_la_SOURCES += \
	src/format/format.c src/format/format.h \
	src/format/obj.c src/format/obj.h \
	src/format/parse.h src/format/parse_int.h \
	src/format/parse_bin.c src/format/parse_obj.c \
	src/format/serve.h
