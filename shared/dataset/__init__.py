"""From files on a disk to the cases of a dataset: listing, profile, rules carried out, intake."""
