"""Taking the test set away: gates of an index, leaks and near-duplicates across the split, the training view."""
