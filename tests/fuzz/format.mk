# Fuzz targets of the format layer; tests/fuzz/local.mk shows how one is added.

include tests/fuzz/pt.mk
