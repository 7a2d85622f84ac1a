"""Files that a package gets as they are: of ours they import nothing but this folder and `shared.imaging`.

Training imports them as `shared.training.exported...` and `shared.imaging...`; in a package they stand beside
predict.py, and `write_package` takes these prefixes off. Within a folder imports are relative.
"""

from pathlib import Path

EXPORTED = Path(__file__).parent
IMAGING = EXPORTED.parents[1] / "imaging"
"""Readers of all formats: a folder. For all packages."""
