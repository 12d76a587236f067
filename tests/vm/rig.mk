# The test VM: scripts/test runs tests/vm/suite in it, once.
EXTRA_DIST += \
	tests/vm/boot \
	tests/vm/guest \
	tests/vm/kernel \
	tests/vm/vm
