# Sources of the plan layer: libptio_core_la_SOURCES += src/plan/x.c src/plan/x.h
