libptio_core_la_SOURCES += \
	src/tensor/known.c src/tensor/known.h \
	src/tensor/request.c src/tensor/resolve.c \
	src/tensor/slice.c src/tensor/slice.h \
	src/tensor/spool.c src/tensor/spool.h \
	src/tensor/tensor.h \
	src/tensor/upload.c src/tensor/upload_begin.c src/tensor/upload_int.h \
	src/tensor/vfile.c \
	src/tensor/view.c src/tensor/view_int.h
