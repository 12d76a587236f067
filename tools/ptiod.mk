# ptiod, the daemon.
bin_PROGRAMS += tools/ptiod/ptiod
tools_ptiod_ptiod_SOURCES = \
	tools/ptiod/collect.c \
	tools/ptiod/conn.c \
	tools/ptiod/frame.c \
	tools/ptiod/handshake.c \
	tools/ptiod/http.c \
	tools/ptiod/jobs.c \
	tools/ptiod/mark.c \
	tools/ptiod/loop.c \
	tools/ptiod/main.c \
	tools/ptiod/notify.c \
	tools/ptiod/ops_data.c \
	tools/ptiod/ops_meta.c \
	tools/ptiod/out.c \
	tools/ptiod/server.h \
	tools/ptiod/session.c \
	tools/ptiod/settings.c \
	tools/ptiod/span.c \
	tools/ptiod/spool.c \
	tools/ptiod/upload.c \
	tools/ptiod/watch.c \
	tools/ptiod/window.c
dist_man_MANS += man/ptiod.1

# The service for systemd, and a configuration to start from, beside the documents.
dist_doc_DATA += etc/ptiod.conf
nodist_doc_DATA = etc/ptiod.service
CLEANFILES += etc/ptiod.service
EXTRA_DIST += etc/ptiod.service.in
etc/ptiod.service: etc/ptiod.service.in
	$(AM_V_GEN)$(MKDIR_P) etc && $(SED) 's|@bindir[@]|$(bindir)|g' '$(srcdir)/etc/ptiod.service.in' >$@
EXTRA_DIST += tests/lint/options
TESTS += tests/lint/options
