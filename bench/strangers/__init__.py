"""Datasets written before the search saw them: measured (`python -m bench.families --of second`), not tuned for."""
