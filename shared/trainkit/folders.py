"""What the name of a folder says about what stands below it."""

import re

ID_NAME = re.compile(
    r"(?:p|pt|pat|patients?|sub|subj|subjects?|case|id|scans?|series|study|studies|exam|person|img|image|s|vol|volume)"
    r"[-_ ]?\d+[a-z]?|\d{3,}",
    re.IGNORECASE,
)
"""A patient, a study, a scan: one of many that are numbered."""
PLAIN_NAME = re.compile(
    r"(?:images?|imgs?|pictures?|dicoms?|nifti|pngs?|jpe?gs?|data|dataset|raw|scans?|volumes?|files?|train\w*|test\w*"
    r"|val\w*|dev|masks?|labels?|imagest[rs]|labelst[rs])[-_ ]?\d*",
    re.IGNORECASE,
)
"""Sorted by kind or split, not by class."""
