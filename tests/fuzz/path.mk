# Fuzz targets of the path layer; tests/fuzz/local.mk shows how one is added.
