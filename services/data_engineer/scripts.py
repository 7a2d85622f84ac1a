"""The scripts that the playbook runs: programs of this folder with the decisions written into them. Pure."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from services.data_engineer.layout import Layout
from shared.agent.brief import Brief
from shared.agent.calls import call
from shared.contracts.tools import RunScript
from shared.contracts.transcript import Call
from shared.trainkit.reports.texts import wanted_section

DIAGNOSIS = Path(__file__).with_name("index_script.py")
SEGMENTATION = Path(__file__).with_name("segmentation_script.py")
REPORTS = Path(__file__).with_name("report_script.py")
AGAIN = """\
\"\"\"The index without the samples that were handed back; all others keep their side of the split.\"\"\"

from shared.trainkit.handback import leave_out

SAMPLES = {samples}
PAIRS = {pairs}

leave_out(SAMPLES, PAIRS)
"""

JOIN = """\
\"\"\"The index split again, so that patients who show the same image stand on one side.\"\"\"

from shared.trainkit.handback import join_patients

PAIRS = {pairs}

join_patients(PAIRS, **{options})
"""


def index_call(layout: Layout, brief: Brief) -> Call:
    """The index script of a diagnosis with this layout's decisions written into it."""
    unit = "folder of slices" if layout.sample == "folder" else "file"
    where = f"column {layout.label_column!r} of {layout.table}" if layout.layout == "table" else "the folder"
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
        "says": f"a sample is a {unit}; its class is {where}; patients: {layout.grouping_from}",
        **_plan(brief),
    }
    return _script(DIAGNOSIS, decisions)


def no_labels_call(brief: Brief) -> Call:
    """The index script where no layout was found: it accounts for every image."""
    return _script(DIAGNOSIS, {"layout": "none", **_plan(brief)})


def segmentation_call(brief: Brief, tree: Mapping[str, Any]) -> Call:
    assert brief.planned is not None
    decisions = {
        "task": brief.planned.plan.task,
        "tables": [str(name) for name in tree.get("tables", [])],
        "card": brief.planned.card.description,
        **_plan(brief),
    }
    return _script(SEGMENTATION, decisions)


def report_call(brief: Brief) -> Call:
    assert brief.planned is not None
    decisions = {
        "card": brief.planned.card.description,
        "section": wanted_section(brief.requested.requirement),
        **_plan(brief),
    }
    return _script(REPORTS, decisions)


def again_call(samples: Mapping[str, str], pairs: Sequence[Sequence[str]]) -> Call:
    text = AGAIN.format(samples=literal(dict(samples)), pairs=literal([tuple(pair) for pair in pairs]))
    return call(RunScript(script=text, save_as="leave_out.py", seconds=600))


def join_call(pairs: Sequence[Sequence[str]], brief: Brief) -> Call:
    options = {key: item for key, item in _plan(brief).items() if key in ("max_train", "max_test", "balance", "seed")}
    text = JOIN.format(pairs=literal([tuple(pair) for pair in pairs]), options=literal(options))
    return call(RunScript(script=text, save_as="join_patients.py", seconds=600))


def _plan(brief: Brief) -> dict[str, Any]:
    assert brief.planned is not None
    plan = brief.planned.plan
    return {
        "dimensions": plan.dimensions,
        "labels": list(plan.labels),
        "max_train": plan.max_train,
        "max_test": plan.max_test,
        "balance": plan.balance_classes,
        "seed": brief.requested.seed,
    }


def _script(program: Path, decisions: Mapping[str, Any]) -> Call:
    text = f"DECISIONS: dict[str, Any] = {literal(decisions)}"
    script = program.read_text().replace("DECISIONS: dict[str, Any] = {}", text)
    return call(RunScript(script=script, save_as="make_index.py", seconds=600))


def literal(value: object) -> str:
    """A value as Python source, one entry a line."""
    if isinstance(value, Mapping):
        lines = [f"    {key!r}: {item!r},\n" for key, item in value.items()]
        return "{\n" + "".join(lines) + "}" if lines else "{}"
    if isinstance(value, list):
        return "[\n" + "".join(f"    {item!r},\n" for item in value) + "]" if value else "[]"
    return json.dumps(value)
