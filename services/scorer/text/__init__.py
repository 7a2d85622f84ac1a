"""Figures of generated texts. No module here knows of samples or stores; `figures.py` is the way in."""
