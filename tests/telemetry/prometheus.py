"""What Prometheus makes of our names, and which of them dashboards and alerts ask for."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from shared.telemetry import METRICS, Metric, Metrics, Name

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "observability"
_UNITS = {"s": "_seconds", "By": "_bytes"}
_BESIDE = {"le", "job", "instance"}
_GROUPED = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
_MATCHED = re.compile(r"\{([^}]*)\}")


def series(metric: Metric) -> set[str]:
    """The names under which Prometheus keeps a metric that it is sent by OTLP (UnderscoreEscapingWithSuffixes)."""
    name = re.sub(r"[^a-zA-Z0-9]", "_", metric.name) + _UNITS.get(metric.unit, "")
    if metric.kind == "histogram":
        return {f"{name}_{part}" for part in ("bucket", "count", "sum")}
    if metric.kind == "counter":
        return {f"{name}_total"}
    return {f"{name}_ratio" if metric.kind == "gauge" and metric.unit == "1" else name}


def labels() -> set[str]:
    return {value.replace(".", "_") for key, value in vars(Name).items() if key.isupper()} | _BESIDE


def asked(expression: str) -> tuple[set[str], set[str]]:
    """The series and the labels that a query names."""
    grouped = [name for group in _GROUPED.findall(expression) for name in group.split(",")]
    matched = [name for group in _MATCHED.findall(expression) for name in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", group)]
    bare = re.sub(r'"[^"]*"', "", _MATCHED.sub("", _GROUPED.sub("", expression)))
    named = set(re.findall(r"\b(?:m3builder|gen_ai|hw|process)_\w+", bare))
    return named, {name.strip() for name in (*grouped, *matched) if name.strip()}


def dashboards() -> dict[str, dict]:
    return {path.stem: json.loads(path.read_text()) for path in sorted((FOLDER / "dashboards").glob("*.json"))}


def rules() -> list[dict]:
    return [rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]


def queries() -> Iterator[tuple[str, str]]:
    """(where, expression) of every panel and alert."""
    for name, board in dashboards().items():
        for panel in board["panels"]:
            for target in panel["targets"]:
                if "expr" in target:
                    yield f"{name}: {panel['title']}", target["expr"]
    for rule in rules():
        yield rule["alert"], rule["expr"]


def metrics_asked() -> set[Metric]:
    """The metrics that any query needs."""
    named = {one for _, expression in queries() for one in asked(expression)[0]}
    return {metric for metric in METRICS if series(metric) & named}


ELSEWHERE = {
    Metrics.CHAT, Metrics.TOKENS, Metrics.GPU_BUSY, Metrics.GPU_USED, Metrics.GPU_SIZE, Metrics.AGAIN,
}  # fmt: skip
"""What no run by the playbook on a machine without a GPU tells; test_export.py and test_one_trace.py see them told."""
