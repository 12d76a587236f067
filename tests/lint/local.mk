# Lint tests.
