"""Readers of a replica that say what its content is worth: grey-value statistics, and a small network."""
