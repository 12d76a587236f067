libptio_core_la_SOURCES += \
	src/tensor/derived.c \
	src/tensor/info.c src/tensor/known.c src/tensor/known.h \
	src/tensor/request.c src/tensor/resolve.c \
	src/tensor/slice.c src/tensor/slice.h \
	src/tensor/spool.c src/tensor/spool.h \
	src/tensor/tensor.h \
	src/tensor/upload.c src/tensor/upload_begin.c src/tensor/upload_int.h \
	src/tensor/vfile.c \
	src/tensor/view.c src/tensor/view_int.h

# The public API.
libptio_core_la_SOURCES += \
	src/tensor/api_files.c src/tensor/api_int.h src/tensor/api_list.c \
	src/tensor/api_open.c src/tensor/api_ranges.c src/tensor/api_read.c \
	src/tensor/api_tp.c src/tensor/api_types.c src/tensor/api_write.c
pkginclude_HEADERS += include/ptio/ptio.h include/ptio/ranges.h \
	include/ptio/tp.h include/ptio/types.h
