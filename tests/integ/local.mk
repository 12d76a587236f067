# Tests of several layers together, without a mount.
