"""Tables of a dataset in any form, as columns and rows of text, and keys that people wrote."""
