"""Rules carried out: which files, patients, targets and masks make a case."""
