"""Marked regions as files and tables hold them: boxes, outlines, run-length codes; and how they are drawn."""
