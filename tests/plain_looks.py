"""Looks of samples without the sandbox, which refuses to run as root, as test suites often do.

That the pack job makes the same in the sandbox has its own test (tests/sandbox/test_looks_sandboxed.py).
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from services.tool_runner.fingerprints import record_of
from services.tool_runner.looking import Looks


def plain_looks(root: Path, samples: Sequence[Sequence[str]]) -> Looks:
    """`samples`: the paths of each one's images below `root`."""
    left = tempfile.TemporaryFile()  # noqa: SIM115  (the Looks close it)
    for files in samples:
        left.write(record_of(files, (), lambda name: (root / name).open("rb")))
    left.flush()
    return Looks(left)
