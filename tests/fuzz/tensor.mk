# Fuzz targets of the tensor layer; tests/fuzz/local.mk shows how one is added.
