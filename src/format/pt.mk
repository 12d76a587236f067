# Ingest of torch.save archives.
libptio_core_la_SOURCES += \
	src/format/namemap.c src/format/namemap.h \
	src/format/pickle.c src/format/pickle.h src/format/pickle_int.h \
	src/format/pickle_torch.c src/format/pickle_walk.c
