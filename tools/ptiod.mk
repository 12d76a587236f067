# ptiod, the daemon.
bin_PROGRAMS += tools/ptiod/ptiod
tools_ptiod_ptiod_SOURCES = \
	tools/ptiod/conn.c \
	tools/ptiod/frame.c \
	tools/ptiod/handshake.c \
	tools/ptiod/http.c \
	tools/ptiod/jobs.c \
	tools/ptiod/loop.c \
	tools/ptiod/main.c \
	tools/ptiod/notify.c \
	tools/ptiod/ops_data.c \
	tools/ptiod/ops_meta.c \
	tools/ptiod/out.c \
	tools/ptiod/server.h \
	tools/ptiod/session.c \
	tools/ptiod/settings.c \
	tools/ptiod/spool.c \
	tools/ptiod/upload.c \
	tools/ptiod/watch.c
