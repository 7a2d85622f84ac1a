"""The report of a real run, with every service behind its own rights: it shows test cases, and the run stays closed."""

import re
from pathlib import Path
from typing import Any

import pytest

from services.command.fetch import whole
from tests.e2e.conftest import Running

pytestmark = pytest.mark.timeout(1200)


def test_the_report_of_a_run_shows_test_cases(running: Running, main_job: dict[str, Any], tmp_path: Path) -> None:
    run_id, state = main_job["run_id"], main_job["state"]
    events = len(running.gateway.record(run_id).events)
    page = tmp_path / "report.html"
    whole(running.gateway, f"/runs/{run_id}/report?format=html&wait=500", page, "html", 540)
    told = page.read_text()
    assert "There are no pictures" not in told and "No picture:" not in told, re.findall("No picture[^<]*", told)
    cases = sum(state.locked.counts["test"].values())
    assert len(re.findall(r'<figure class="case">\s*<img alt="Case ', told)) == min(8, cases)
    assert told.count("(truth)") == min(8, cases)
    assert len(running.gateway.record(run_id).events) == events, "pictures are no facts of a run that has ended"
