# Fuzz targets of the store layer; tests/fuzz/local.mk shows how one is added.
