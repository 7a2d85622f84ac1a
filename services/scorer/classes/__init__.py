"""A diagnosis: one label a sample, or several that may hold."""
