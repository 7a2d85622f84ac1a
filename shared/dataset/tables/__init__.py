"""Tables of a dataset in any form, as columns and rows of text, keys that people wrote, and the words of both."""
