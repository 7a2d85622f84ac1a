"""The grammar of made-up reports."""
