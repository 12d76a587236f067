# Lint tests: rules of the house that a script can see.
lint_tests = \
	tests/lint/alone \
	tests/lint/exports \
	tests/lint/headers \
	tests/lint/layers \
	tests/lint/pages \
	tests/lint/sentences \
	tests/lint/style
EXTRA_DIST += $(lint_tests)
TESTS += $(lint_tests)
