# Documents: dist_doc_DATA += docs/x.md.
