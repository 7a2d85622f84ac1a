"""Trusted program: the profile of a dataset, as one JSON line {"summary", "data"}. Reads only.

Where files change all the while it says so instead, and exits with 1.

profile_dataset.py                  (data below $M3_DATA)
"""

import json
import os
import sys
from pathlib import Path

from shared.dataset.files.listing import Changing
from shared.dataset.profile.profile import profile
from shared.dataset.profile.show import show

if __name__ == "__main__":
    try:
        found = profile(Path(os.environ["M3_DATA"]))
    except Changing as error:
        sys.exit(str(error))
    print(json.dumps({"summary": show(found), "data": found.model_dump(mode="json")}, ensure_ascii=True))
