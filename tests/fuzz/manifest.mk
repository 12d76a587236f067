# Fuzz targets of the manifest layer; tests/fuzz/local.mk shows how one is added.
