# Lint tests: rules of the house that a script can see.
EXTRA_DIST += tests/lint/layers tests/lint/style
TESTS += tests/lint/layers tests/lint/style
