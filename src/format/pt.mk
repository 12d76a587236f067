# Ingest of torch.save archives.
libptio_core_la_SOURCES += \
	src/format/gather.c \
	src/format/namemap.c src/format/namemap.h \
	src/format/parse_pt.c src/format/parse_pt_int.h \
	src/format/parse_pt_local.c src/format/parse_pt_end.c \
	src/format/pickle.c src/format/pickle.h src/format/pickle_int.h \
	src/format/repickle.c src/format/repickle.h \
	src/format/pickle_value.c src/format/pickle_torch.c src/format/pickle_walk.c
