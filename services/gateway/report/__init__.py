"""The result of a run in one place, as text, as one HTML file and as a model card; made from facts alone.

`gather` reads the facts; everything after it is pure: sections of words and tables that text and HTML share, figures
that only the HTML has, and the card, which names no test sample.
"""
