"""ARK documents, read into the same declarations as native manifests."""
