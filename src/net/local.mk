# The net layer: messages to a daemon, and the connection that carries them.
libptio_core_la_SOURCES += \
	src/net/addr.c src/net/addr.h \
	src/net/auth.c src/net/auth.h \
	src/net/client.c src/net/client.h \
	src/net/client_call.c src/net/client_int.h \
	src/net/client_conn.c \
	src/net/client_reach.c \
	src/net/rdma.h src/net/rdma_hello.h \
	src/net/rdma_costs.c src/net/rdma_costs.h \
	src/net/rdma_device.c src/net/rdma_device.h \
	src/net/rdma_measure.c \
	src/net/rdma_plan.c src/net/rdma_plan.h \
	src/net/resolve.c src/net/resolve.h \
	src/net/stream.c src/net/stream.h \
	src/net/tls.c src/net/tls.h \
	src/net/wire.c src/net/wire.h
if HAVE_RDMA
libptio_core_la_SOURCES += \
	src/net/rdma_verbs.c src/net/rdma_verbs_int.h \
	src/net/rdma_verbs_conn.c \
	src/net/rdma_verbs_server.c
else
libptio_core_la_SOURCES += src/net/rdma_none.c
endif
nodist_libptio_core_la_SOURCES = src/net/ptio.pb-c.c src/net/ptio.pb-c.h
BUILT_SOURCES += src/net/ptio.pb-c.c src/net/ptio.pb-c.h
CLEANFILES += src/net/ptio.pb-c.c src/net/ptio.pb-c.h
EXTRA_DIST += src/net/ptio.proto

# protoc-c writes both files at once; the header follows the source.
src/net/ptio.pb-c.c: src/net/ptio.proto
	$(AM_V_GEN)$(MKDIR_P) src/net && $(PROTOC_C) --proto_path='$(srcdir)/src' --c_out=src '$(srcdir)/src/net/ptio.proto'
src/net/ptio.pb-c.h: src/net/ptio.pb-c.c
	@test -f $@ || { rm -f src/net/ptio.pb-c.c; $(MAKE) $(AM_MAKEFLAGS) src/net/ptio.pb-c.c; }
