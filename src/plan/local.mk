libptio_core_la_SOURCES += \
	src/plan/cells.h \
	src/plan/cursor.c \
	src/plan/plan.c src/plan/plan.h \
	src/plan/tree.c
