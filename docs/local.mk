# Documents: one line a page.
dist_doc_DATA += \
	docs/CONFORMANCE.md \
	docs/DESIGN.md \
	docs/HACKING.md \
	docs/PATHS.md \
	docs/PERFORMANCE.md \
	docs/SPEC.md \
	docs/SPEC-store.md \
	docs/WIRE.md
