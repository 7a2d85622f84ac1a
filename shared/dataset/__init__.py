"""From files on a disk to the cases of a dataset. Rooms, each of which imports only from those before it:

`tables`, `files` (listing, patterns, looks), `shapes` (marked regions), `survey` (what the dataset seems to be),
`intake` (cases decoded and written), `rules` (rules carried out), `profile` (the survey in brief), `propose` (the
search for rules).
"""
