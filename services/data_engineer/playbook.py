"""The Data Engineer's expert: look at the tree and its tables, decide on a layout, write the index script, run it."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast, get_args

from services.data_engineer.layout import Layout, folder_layout, single_class, table_layout
from services.data_engineer.scripts import (
    again_call,
    index_call,
    join_call,
    no_labels_call,
    report_call,
    segmentation_call,
)
from shared.agent.brief import Brief
from shared.agent.calls import call, submit
from shared.contracts.data import Handoff, PreparedDataset
from shared.contracts.runs import Claim, Infeasibility, WorkReturned
from shared.contracts.tools import PreviewDirs, PreviewFiles, ToolResult
from shared.contracts.transcript import Call, Observation
from shared.errors import UserError

Script = Generator[tuple[Call, ...], Observation, None]


@dataclass
class Attempts:
    """What was tried so far, and which claims the scripts made."""

    tried: list[str] = field(default_factory=list)
    findings: list[Infeasibility] = field(default_factory=list)

    def failed(self, name: str, result: ToolResult) -> None:
        said = last_json(result)
        problem = str(said.get("problem") or first_line(result.summary, result.data))
        self.tried.append(f"{name}: {problem}")
        if said.get("claim") in get_args(Claim):
            claim = cast(Claim, said["claim"])
            self.findings.append(Infeasibility(claim=claim, reason=problem, accounts=str(said["accounts"])))


def playbook(brief: Brief) -> Script:
    """Preview, decide, run, submit. Without an index it ends in a claim that a probe confirms, or in a sentence."""
    assert brief.planned is not None
    plan, card = brief.planned.plan, brief.planned.card
    if brief.handed_back:
        yield from again(brief, brief.handed_back)
    seen = yield (call(PreviewDirs(path="/data")),)
    if not seen.results[0].ok:
        raise UserError(f"the dataset's folder could not be looked at: {first_line(seen.results[0].summary, {})}")
    tree: Mapping[str, Any] = seen.results[0].data
    attempts = Attempts()
    if plan.task == "diagnosis":
        tables = yield from read_tables(tree)
        found = layouts(tree, tables, plan.dimensions, card.description)
        for layout in found or single_class(tree, f"{card.description}\n{brief.requested.requirement}"):
            yield from attempt(layout.layout, index_call(layout, brief), tree, attempts)
        if not found and not attempts.findings:
            yield from attempt("no layout of classes", no_labels_call(brief), tree, attempts)
    elif plan.task == "report_generation":
        yield from attempt("reports and their images", report_call(brief), tree, attempts)
    else:
        yield from attempt("pairs of image and mask", segmentation_call(brief, tree), tree, attempts)
    yield from end(tree, attempts)


def read_tables(tree: Mapping[str, Any]) -> Generator[tuple[Call, ...], Observation, dict[str, Any]]:
    """Path -> facts of the tables that the preview named."""
    names = [str(name) for name in tree.get("tables", [])][:20]
    if not names:
        return {}
    looked = yield (call(PreviewFiles(paths=tuple(f"/data/{name}" for name in names))),)
    files = looked.results[0].data.get("files")
    return {
        path.removeprefix("/data/"): facts
        for path, facts in (files if isinstance(files, dict) else {}).items()
        if isinstance(facts, dict) and facts.get("columns")
    }


def attempt(name: str, script: Call, tree: Mapping[str, Any], attempts: Attempts) -> Script:
    """Run an index script and submit what it made."""
    ran = yield (script,)
    if not ran.results[0].ok:
        attempts.failed(name, ran.results[0])
        return
    submitted = yield (submit("submit_dataset", answer(last_json(ran.results[0]), tree)),)
    attempts.tried.append(f"{name}: " + "; ".join(submitted.notes))


def end(tree: Mapping[str, Any], attempts: Attempts) -> Script:
    """Claim what the scripts found, and say so plainly where nothing is left to claim."""
    for finding in attempts.findings:
        evidence = {"levels": tree.get("levels", []), "tables": tree.get("tables", []), "tried": attempts.tried}
        refused = yield (submit("declare_infeasible", finding.model_copy(update={"evidence": evidence})),)
        attempts.tried.append(f"the claim {finding.claim} does not hold: " + "; ".join(refused.notes))
    raise UserError("no index could be made of this dataset. " + "; ".join(attempts.tried))


def again(brief: Brief, returned: WorkReturned) -> Script:
    """The same index without the samples that were handed back, and everything else keeps its side.

    Or, where the scorer asks for patients to be joined, the same samples split again.
    """
    samples = returned.evidence.get("samples")
    leakage = returned.evidence.get("leakage")
    pairs = leakage.get("pairs") if isinstance(leakage, dict) else None
    pairs = pairs if isinstance(pairs, list) else []
    wrong = {name: str(text) for name, text in samples.items()} if isinstance(samples, dict) else {}
    across = [[str(item) for item in pair] for pair in pairs if isinstance(pair, list) and len(pair) == 3]
    whose = f"{returned.sender} handed the dataset back: {returned.reason}"
    merge = returned.evidence.get("merge")
    merge = merge if isinstance(merge, list) else []
    joined = [[str(item) for item in pair] for pair in merge if isinstance(pair, list) and len(pair) == 2]
    if not wrong and not across and not joined:
        raise UserError(f"{whose}. No sample is named that could be left out; look at the dataset and start a new run")
    ran = yield (join_call(joined, brief) if joined else again_call(wrong, across),)
    if not ran.results[0].ok:
        said = last_json(ran.results[0]).get("problem") or first_line(ran.results[0].summary, ran.results[0].data)
        raise UserError(f"{whose}. Its remedy leaves no index: {said}")
    refused = yield (submit("submit_dataset", answer(last_json(ran.results[0]), {})),)
    raise UserError(f"{whose}. With its remedy the index does not hold: {'; '.join(refused.notes)}")


def layouts(tree: Mapping[str, Any], tables: Mapping[str, Any], dimensions: int, card: str) -> list[Layout]:
    """Candidate layouts, the most plausible first: a table that the card names columns of outranks folders."""
    by_table = table_layout(tree, dimensions, tables, card)
    by_folder = folder_layout(tree, dimensions, tables, card)
    found = [by_table, by_folder] if by_table and by_table.named_by_card else [by_folder, by_table]
    return [layout for layout in found if layout is not None]


def answer(report: Mapping[str, Any], tree: Mapping[str, Any]) -> PreparedDataset:
    """The delivery, from what the index script told; what was left out is added from the index itself."""
    left_out = {str(key): int(value) for key, value in dict(report.get("excluded", {})).items()}
    oddities = [f"{count} x {reason}" for reason, count in sorted(left_out.items())]
    previewed = list(tree.get("images", []))[:6]
    return PreparedDataset(
        handoff=Handoff(
            layout=str(report.get("layout", "")),
            geometry={"previewed": previewed} if previewed else {},
            oddities=(*(str(item) for item in report.get("oddities", [])), *oddities),
        ),
        warnings=tuple(str(item) for item in report.get("warnings", [])),
    )


def last_json(result: ToolResult) -> Mapping[str, Any]:
    """What the script printed last."""
    said = result.data.get("last_json")
    return said if isinstance(said, dict) else {}


def first_line(summary: str, data: Mapping[str, Any]) -> str:
    """The cause of a failed script: the exception if one was parsed, else the head of the summary."""
    trace = data.get("traceback")
    if isinstance(trace, Mapping) and trace.get("message"):
        return f"{trace.get('type', 'error')}: {trace['message']}"
    return summary.strip().splitlines()[0]
