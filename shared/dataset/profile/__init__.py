"""The profile of a dataset: its survey in brief, and what is wrong with its files."""
