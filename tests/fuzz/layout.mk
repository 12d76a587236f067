# Fuzz targets of the layout layer; tests/fuzz/local.mk shows how one is added.
