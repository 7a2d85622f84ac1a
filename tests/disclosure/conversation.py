"""A Data Engineer whose model is an endpoint outside, over real tools and any replica; whole runs are in `stand_in`."""

import csv
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from services.data_engineer.role import ROLE
from services.tool_runner.tools import Roots, run_tool
from shared.agent.brief import Brief
from shared.contracts.tools import ToolResult
from shared.contracts.transcript import Call, Observation, Turn
from shared.models.endpoint import EndpointCore
from tests.agents.data_engineer_bench import Bench
from tests.families.dicom import blank, pixels
from tests.models.model_endpoints import Endpoint
from tests.models.protocols import Protocol, Reply, Use

NAMES = ("Zebulon", "Quackenbush", "Grace", "Young", "Wozniacki", "Käthe", "Brückner", "Ulysse", "Quistorp")
CANARIES = (*NAMES, "MRN7788123", "7788123", "48213", "1957-02-03", "19570203", "03.02.1957", "Quistorpklinik",
            "0176", "5551234", "1.2.826.0.1.3680043.8.498.424242", "brueckner@klinik-quistorp.de",
            "fell from a ladder", "daughter visited", "ladder", "beekeeper")  # fmt: skip
"""What stands in the seeded files and nowhere else."""
REPORT = (
    "The beekeeper Mrs Brückner fell from a ladder. The lungs are clear. No pleural effusion is seen. "
    "Her daughter visited."
)


def seed(data: Path) -> None:
    """Canaries in paths, headers, cells, texts and cards."""
    place = data / "Quackenbush_Zebulon_19570203" / "Grace Young"
    place.mkdir(parents=True)
    (place / "MRN7788123_notes.txt").write_text(
        f"Patient: Grace Young\nborn 03.02.1957\n\n{REPORT}\n", encoding="utf-8"
    )
    (data / "card.yaml").write_text(
        "contact: Dr. Ulysse Wozniacki, Quistorpklinik, 0176-5551234\nmail: brueckner@klinik-quistorp.de\n"
        f"about: {REPORT}\n",
        encoding="utf-8",
    )
    with (data / "visits.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["patient_name", "mrn", "born", "physician", "weight", "report"])
        for number in range(8):
            name = ("Grace Young", "Zebulon Quackenbush", "YOUNG, GRACE", "Käthe Brückner")[number % 4]
            table.writerow([name, "48213", "1957-02-03", "Dr. Wozniacki", 60 + number, REPORT])
    _dicom(place / "scan_quackenbush_1957.dcm")


def _dicom(path: Path) -> None:
    one = blank("CT", "MRN7788123", *["1.2.826.0.1.3680043.8.498.424242"] * 3)
    one.PatientName, one.PatientBirthDate = "Quackenbush^Zebulon", "19570203"
    one.ReferringPhysicianName, one.InstitutionName = "Wozniacki^Ulysse", "Quistorpklinik"
    pixels(one, np.zeros((16, 16), np.uint16))
    one.save_as(path, enforce_file_format=True)


SCRIPT = """
import csv, os, pathlib, pydicom
root = pathlib.Path(os.environ["M3_DATA"])
for path in sorted(root.rglob("*"))[:300]:
    print(path.relative_to(root), path.stat().st_size)
for row in csv.DictReader((root / "visits.csv").open(encoding="utf-8")):
    print(row)
    print(ascii(row["patient_name"]), row["patient_name"].lower(), row["patient_name"][::-1], row["report"])
header = pydicom.dcmread(next(root.rglob("*.dcm")))
print(header)
raise KeyError(row["patient_name"] + " " + row["mrn"])
"""


class Model(Endpoint):
    """Asks in the order of its steps; each makes its calls from the last results as the endpoint was shown them."""

    def __init__(self, protocol: Protocol, steps: list[Callable[[dict[str, str]], list[Use]]]) -> None:
        super().__init__(protocol, [])
        self.steps = steps
        self.sent: list[str] = []

    def answer(self, path: str, key: str | None, body: dict[str, Any]) -> Reply:
        self.sent.append(json.dumps(body, ensure_ascii=False))
        said = self.protocol.said(body)[-1]
        results = {name: text for name, (_, text) in said.results.items()} or {"brief": said.words}
        self.replies = [self.protocol.reply(*self.steps[len(self.sent) - 1](results))]
        return super().answer(path, key, body)


def steps() -> list[Callable[[dict[str, str]], list[Use]]]:
    """What any Data Engineer might do: look around, search, read what it found, write rules of its own."""

    def look(shown: dict[str, str]) -> list[Use]:
        task = re.search(r'\btask"?: "?(\w+)', shown["brief"])
        assert task
        return [
            ("d", "preview_dirs", {}),
            ("p", "propose_rules", {"task": task[1], "target": "what was asked for"}),
            ("s", "run_script", {"script": SCRIPT}),
        ]

    def closer(shown: dict[str, str]) -> list[Use]:
        files = re.findall(r"[^\s,:]*/[^\n,:]*?\.(?:txt|csv|dcm|yaml)", shown["d"])
        paths = [f"/data/{one}" for one in dict.fromkeys([*files[:6], "card.yaml", "visits.csv"])]
        rules = re.search(r"^## 1[^\n]*\n(.*?)^(?:PROBLEM|CONFLICT|\d+ cases)", shown["p"], re.DOTALL | re.MULTILINE)
        tried: list[Use] = [("t", "try_rules", {"text": rules[1]})] if rules else []
        return [("f", "preview_files", {"paths": paths}), ("r", "read_files", {"paths": paths}), *tried]

    def end(shown: dict[str, str]) -> list[Use]:
        return [("e", "submit_dataset", {"notes": ["done"]})]

    return [look, closer, end]


@dataclass
class Work:
    """What a conversation did: calls as they were carried out, and each with its result."""

    calls: list[Call] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    segment: list[Turn | Observation] = field(default_factory=list)


async def converse(core: EndpointCore, bench: Bench, brief: Brief) -> Work:
    """Until it submits."""
    work = Work()
    work.segment.append(Observation(run_id="r1", role="data_engineer", number=0, event_id="o"))
    for number in range(1, 9):
        made = await core.decide(ROLE, brief, work.segment)
        turn = Turn(
            run_id="r1", role="data_engineer", number=number, at=datetime.now(UTC), core=core.name, text=made.text,
            kept=made.kept, calls=made.calls, hidden=made.hidden,
        )  # fmt: skip
        results = []
        for position, call in enumerate(made.calls):
            work.calls.append(call)
            if ROLE.submission(call.name):
                return work
            name = f"r1-data_engineer-{number}-{position}"
            found = await run_tool(call.name, dict(call.arguments), Roots(bench.work, bench.data), bench, name)
            results.append(found.model_copy(update={"call_id": name}))
        work.results += results
        work.segment += [turn, Observation(run_id="r1", role="data_engineer", number=number, results=tuple(results))]
    raise AssertionError("the model did not end")


def leaks(sent: str, data: Path) -> list[str]:
    """Canaries, and the dataset's own files with long numbers as names, that stand in what was sent. Short numbers
    become each other's surrogates."""
    plain = sent.lower() + json.dumps(sent).lower()
    found = [one for one in CANARIES if re.search(rf"(?<![^\W_]){re.escape(one.lower())}", plain)]
    stems = {path.name.partition(".")[0].lower() for path in data.rglob("*")}
    numbered = {one for one in stems if len(re.sub(r"^0+|\D0*", "", one)) > 4}
    words = set(re.findall(r"[\w-]+", plain))
    return [*found, *sorted(numbered & words)[:5]]


def prepared(tmp_path: Path, replica: Path) -> Bench:
    """A bench with a copy of the replica, seeded."""
    bench = Bench(tmp_path)
    shutil.copytree(replica, bench.data, dirs_exist_ok=True)
    seed(bench.data)
    return bench
