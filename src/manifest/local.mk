libptio_core_la_SOURCES += \
	src/manifest/ahead.c \
	src/manifest/audit.c src/manifest/audit.h src/manifest/audit_int.h \
	src/manifest/audit_blobs.c \
	src/manifest/batch.c src/manifest/internal.h \
	src/manifest/cache.c src/manifest/cache.h \
	src/manifest/checked.c src/manifest/checked.h \
	src/manifest/commit.c \
	src/manifest/contain.c \
	src/manifest/describe.c src/manifest/describe.h \
	src/manifest/gc.c \
	src/manifest/group.c src/manifest/group_int.h \
	src/manifest/group_batch.c \
	src/manifest/group_look.c \
	src/manifest/key.c src/manifest/key.h \
	src/manifest/manifest.c \
	src/manifest/manifest_edit.c \
	src/manifest/node.c \
	src/manifest/node_key.c \
	src/manifest/node_list.c \
	src/manifest/node_read.c \
	src/manifest/object_read.c \
	src/manifest/object_write.c \
	src/manifest/pin.c \
	src/manifest/pump.c src/manifest/pump.h \
	src/manifest/record_node.c src/manifest/record.h \
	src/manifest/record_set.c \
	src/manifest/record_small.c src/manifest/record_small.h \
	src/manifest/rename.c \
	src/manifest/repo.c src/manifest/repo.h \
	src/manifest/set.c src/manifest/set.h \
	src/manifest/wait.c \
	src/manifest/window.c src/manifest/window.h
