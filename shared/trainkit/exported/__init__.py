"""Files that a package gets as they are: nothing in here imports anything of ours outside of this folder.

Training imports them as `shared.trainkit.exported...`; in a package they stand beside predict.py, and `write_package`
takes that prefix off where a template's exported file (model.py) uses it. Within the folder imports are relative.
"""

from pathlib import Path

CLI = Path(__file__).with_name("package_cli.py")
"""The command line of every package: one file."""
SEGMENTER = Path(__file__).with_name("segmenter")
"""From files to masks on their own grids: a folder."""
IMAGING = Path(__file__).with_name("imaging")
"""From files to what a network sees, and backbones: a folder. For diagnoses and reports."""
