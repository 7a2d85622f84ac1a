"""Dashboards and alerts ask for what the services tell, and each alert fires when it should."""

import shutil
import subprocess

import pytest
import yaml

from shared.telemetry import METRICS
from tests.telemetry.prometheus import FOLDER, asked, dashboards, labels, queries, rules, series


def test_every_query_names_what_is_told() -> None:
    known = set().union(*map(series, METRICS))
    seen = 0
    for where, expression in queries():
        names, its_labels = asked(expression)
        assert names and names <= known, (where, names - known)
        assert its_labels <= labels(), (where, its_labels - labels())
        seen += 1
    assert seen > 40


def test_dashboards_are_whole() -> None:
    boards = dashboards()
    assert set(boards) == {"fleet", "run", "quality", "cost"}
    sources = yaml.safe_load((FOLDER / "grafana" / "datasources" / "m3builder.yaml").read_text())["datasources"]
    known = {source["uid"]: source["type"] for source in sources}
    for board in boards.values():
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
        taken: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            assert known[panel["datasource"]["uid"]] == panel["datasource"]["type"] and panel["title"]
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken and max(x for x, _ in cells) < 24
            taken |= cells


def test_the_collector_uses_what_it_defines() -> None:
    found = yaml.safe_load((FOLDER / "collector.yaml").read_text())
    for signal, pipeline in found["service"]["pipelines"].items():
        assert signal in ("traces", "metrics")
        for part in ("receivers", "processors", "exporters"):
            assert pipeline[part] and set(pipeline[part]) <= set(found[part])
    assert set(found["exporters"]) == {
        one for line in found["service"]["pipelines"].values() for one in line["exporters"]
    }


def test_every_alert_says_what_to_do_and_is_tried() -> None:
    tried = (FOLDER / "alerts_test.yaml").read_text()
    for rule in rules():
        assert rule["annotations"]["summary"] and rule["annotations"]["runbook"], rule["alert"]
        assert f'alertname="{rule["alert"]}"' in tried, rule["alert"]


def test_each_alert_fires_and_only_then() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian's package prometheus has it)")
    done = subprocess.run([promtool, "test", "rules", "alerts_test.yaml"], cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
