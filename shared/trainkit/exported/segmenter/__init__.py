"""From the files of one input to a mask on its own grid. Exported with a package: nothing of ours is imported here."""
