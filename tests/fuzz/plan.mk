# Fuzz targets of the plan layer; tests/fuzz/local.mk shows how one is added.
