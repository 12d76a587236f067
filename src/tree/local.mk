libptio_core_la_SOURCES += \
	src/tree/alias.c src/tree/alias.h \
	src/tree/all_view.c \
	src/tree/bundle.c src/tree/bundle.h \
	src/tree/container.c src/tree/container.h \
	src/tree/container_code.c \
	src/tree/container_seal.c \
	src/tree/container_write.c src/tree/container_write.h \
	src/tree/list.c \
	src/tree/many.c src/tree/many.h src/tree/many_int.h \
	src/tree/many_header.c \
	src/tree/many_read.c \
	src/tree/model_dir.c src/tree/model_dir.h \
	src/tree/model_info.c \
	src/tree/models.c src/tree/models.h \
	src/tree/name.c \
	src/tree/named.c src/tree/named.h \
	src/tree/place.c src/tree/place.h \
	src/tree/rank_view.c src/tree/rank_view.h \
	src/tree/seal_queue.c src/tree/seal_queue.h \
	src/tree/shard_sink.c src/tree/shard_int.h \
	src/tree/shard_tensor.c \
	src/tree/shard_write.c src/tree/shard_write.h \
	src/tree/tp_builtin.c src/tree/tp_builtin.h \
	src/tree/tp_plan.c src/tree/tp_plan.h \
	src/tree/tree.h
