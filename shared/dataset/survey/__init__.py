"""The survey of a dataset: families of files, tables, and what may tell patients, classes, masks and texts."""
