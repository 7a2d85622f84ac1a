"""A workspace that a script floods is not stored: the call that did it is told what to remove."""

from pathlib import Path

import pytest

from services.tool_runner import workspaces
from services.tool_runner.workspaces import refuse_flood
from shared.errors import ToolRefused
from shared.store.folders import Found, Scan, scan


def test_sparse_files_count_with_the_size_that_they_show(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("pass")
    refuse_flood(scan(tmp_path))
    for number in range(5):
        with (tmp_path / str(number)).open("wb") as file:
            file.truncate(workspaces.MAX_BYTES // 4)
    with pytest.raises(ToolRefused, match="6 files"):
        refuse_flood(scan(tmp_path))


def test_a_million_files_are_too_many() -> None:
    one = Found(size=0, mtime_ns=0, ctime_ns=0, inode=0, mode=0)
    most = {str(number): one for number in range(workspaces.MAX_FILES)}
    refuse_flood(Scan(most, {}, {}))
    with pytest.raises(ToolRefused, match="cache or preprocessed"):
        refuse_flood(Scan(most | {"more": one}, {}, {}))
