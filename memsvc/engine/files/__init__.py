"""Files: upload, download, deletion and garbage collection."""
