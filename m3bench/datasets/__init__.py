"""One generator a dataset: its plan, its tree, its tables, its traps. Each module has a `REPLICA`."""
