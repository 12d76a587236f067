# Documents: one line a page.
dist_doc_DATA += docs/HACKING.md
