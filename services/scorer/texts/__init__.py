"""Reports: reading answers, controls, and figures of generated texts (`figures.py` is their way in)."""
