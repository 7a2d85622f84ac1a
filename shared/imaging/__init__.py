"""Medical images: which formats are read, how each becomes an array with its place in space, and canonical files.

`formats` and `order` cost nothing to import; libraries are imported where they are used. Nothing here imports anything
of ours outside of this folder, which packages carry as `imaging`.
"""
