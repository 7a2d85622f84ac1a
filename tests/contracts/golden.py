"""Write the JSON Schemas of all contracts: `python -m tests.contracts.golden`. A changed contract shows as a diff."""

import json
from pathlib import Path

from pydantic import TypeAdapter

from shared.contracts.cases import CaseSpec, CaseTable
from shared.contracts.data import CaseList, IndexRow, SealedSplit, ViewManifest
from shared.contracts.events import AnyEvent
from shared.contracts.rules import Rules
from shared.contracts.tools import TOOLS, ToolCall, ToolResult
from shared.contracts.training import JobProgress, JobSpec
from shared.contracts.transcript import Entry, Waiting
from shared.contracts.weights import Weights

FOLDER = Path(__file__).with_name("golden")


def schemas() -> dict[str, str]:
    """File name -> text."""
    cases = [Rules, CaseSpec, CaseTable, IndexRow, CaseList, SealedSplit, ViewManifest]
    single = [*cases, ToolCall, ToolResult, JobSpec, JobProgress, Waiting, Weights]
    found = {f"{model.__name__}.json": model.model_json_schema() for model in single}
    found["events.json"] = TypeAdapter(AnyEvent).json_schema()
    found["transcript.json"] = TypeAdapter(Entry).json_schema()
    found["tools.json"] = {name: model.model_json_schema() for name, model in sorted(TOOLS.items())}
    return {name: json.dumps(schema, indent=1, sort_keys=True) + "\n" for name, schema in found.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in schemas().items():
        (FOLDER / name).write_text(text)
