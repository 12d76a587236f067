# Fuzz targets of the base layer; tests/fuzz/local.mk shows how one is added.
