"""Files of a dataset: the listing, patterns of names, looks into headers and arrays."""
