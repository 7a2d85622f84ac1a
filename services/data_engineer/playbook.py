"""The Data Engineer's expert: look at the tree and its tables, decide on a layout, write the index script, run it."""

import json
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from services.data_engineer.layout import Layout, folder_layout, table_layout
from shared.agent.brief import Brief
from shared.agent.calls import call, submit
from shared.contracts.data import Handoff, PreparedDataset
from shared.contracts.runs import Infeasibility
from shared.contracts.tools import PreviewDirs, PreviewFiles, RunScript
from shared.contracts.transcript import Call, Observation
from shared.errors import UserError

SCRIPT = Path(__file__).with_name("index_script.py")


def playbook(brief: Brief) -> Generator[tuple[Call, ...], Observation, None]:
    """Preview, decide, run, submit; each layout that fails gives way to the next, and none left is an honest end."""
    assert brief.planned is not None
    plan, card = brief.planned.plan, brief.planned.card
    if plan.task != "diagnosis":
        raise UserError(f"the playbook core cannot prepare {plan.task} yet; name a language model as core")
    seen = yield (call(PreviewDirs(path="/data")),)
    tree: Mapping[str, Any] = seen.results[0].data if seen.results[0].ok else {}
    tables: dict[str, Any] = {}
    names = [str(name) for name in tree.get("tables", [])][:20]
    if names:
        looked = yield (call(PreviewFiles(paths=tuple(f"/data/{name}" for name in names))),)
        tables = {
            path.removeprefix("/data/"): facts
            for path, facts in dict(looked.results[0].data.get("files", {})).items()  # type: ignore[arg-type]
            if isinstance(facts, dict) and facts.get("columns")
        }
    tried: list[str] = []
    for layout in layouts(tree, tables, plan.dimensions, card.description):
        ran = yield (index_call(layout, brief),)
        result = ran.results[0]
        if not result.ok:
            tried.append(f"{layout.layout}: {first_line(result.summary, result.data)}")
            continue
        submitted = yield (submit("submit_dataset", answer(layout, result.data, tree)),)
        tried.append(f"{layout.layout}: " + "; ".join(submitted.notes))
    finding = Infeasibility(
        claim="no_labels",
        reason="no index could be made: " + ("; ".join(tried) or "the files fit no layout of classes that is known"),
        evidence={"levels": tree.get("levels", []), "tables": sorted(tables), "tried": tried},
    )
    while True:
        yield (submit("declare_infeasible", finding),)


def layouts(tree: Mapping[str, Any], tables: Mapping[str, Any], dimensions: int, card: str) -> list[Layout]:
    """Candidate layouts, the most plausible first: a table that the card names columns of outranks folders."""
    by_table = table_layout(tree, dimensions, tables, card)
    by_folder = folder_layout(tree, dimensions, tables, card)
    found = [by_table, by_folder] if by_table and by_table.named_by_card else [by_folder, by_table]
    return [layout for layout in found if layout is not None]


def index_call(layout: Layout, brief: Brief) -> Call:
    """The index script with this layout's decisions written into it."""
    assert brief.planned is not None
    plan = brief.planned.plan
    decisions = {
        "layout": layout.layout,
        "root": layout.root,
        "class_level": layout.class_level,
        "patient_level": layout.patient_level,
        "patient_pattern": layout.patient_pattern,
        "split_level": layout.split_level,
        "sample": layout.sample,
        "table": layout.table,
        "label_column": layout.label_column,
        "file_column": layout.file_column,
        "patient_column": layout.patient_column,
        "split_column": layout.split_column,
        "grouping": layout.grouping,
        "grouping_from": layout.grouping_from,
        "dimensions": plan.dimensions,
        "labels": list(plan.labels),
        "max_train": plan.max_train,
        "max_test": plan.max_test,
        "balance": plan.balance_classes,
        "seed": brief.requested.seed,
    }
    text = (
        json.dumps(decisions, indent=4)
        .replace(": null", ": None")
        .replace(": true", ": True")
        .replace(": false", ": False")
    )
    script = SCRIPT.read_text().replace("DECISIONS: dict[str, Any] = {}", f"DECISIONS: dict[str, Any] = {text}")
    return call(RunScript(script=script, save_as="make_index.py", seconds=600))


def answer(layout: Layout, ran: Mapping[str, Any], tree: Mapping[str, Any]) -> PreparedDataset:
    report = ran.get("last_json") or {}
    left_out = {str(key): int(value) for key, value in dict(report.get("excluded", {})).items()}
    oddities = tuple(f"{count} x {reason}" for reason, count in sorted(left_out.items()))
    unit = "folder of slices" if layout.sample == "folder" else "file"
    where = f"column {layout.label_column!r} of {layout.table}" if layout.layout == "table" else "the folder"
    warnings: tuple[str, ...] = ()
    if layout.grouping == "inferred":
        warnings = (f"patients are inferred: {layout.grouping_from}",)
    return PreparedDataset(
        handoff=Handoff(
            layout=f"a sample is a {unit}; its class is {where}; patients: {layout.grouping_from}",
            geometry={"previewed": list(tree.get("images", []))[:6]},
            oddities=oddities,
        ),
        warnings=warnings,
    )


def first_line(summary: str, data: Mapping[str, Any]) -> str:
    """The cause of a failed script: the exception if one was parsed, else the head of the summary."""
    trace = data.get("traceback")
    if isinstance(trace, Mapping) and trace.get("message"):
        return f"{trace.get('type', 'error')}: {trace['message']}"
    return summary.strip().splitlines()[0]
