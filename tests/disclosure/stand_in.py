"""An endpoint outside that does the work of all roles with what it is shown, and hears whatever it can on its way."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.models.model_endpoints import Endpoint
from tests.models.protocols import Protocol, Reply, Use

RULES = re.compile(
    r"^## \d[^\n]*\n((?:(?!^##).)*?column: (?:diagnosis|report)\n.*?)^(?:PROBLEM|CONFLICT|\d+ cases)",
    re.DOTALL | re.MULTILINE,
)
"""Those by the column that tells what is asked for."""
LOOK = """
import csv, os, pathlib, pydicom, json
root = pathlib.Path(os.environ["M3_DATA"])
for path in sorted(root.rglob("*"))[:200]:
    print(path.relative_to(root))
for row in list(csv.DictReader((root / "patients.csv").open(encoding="utf-8")))[:20]:
    name = row["patient_name"]
    print(row, ascii(name), name.lower(), name[::-1], name.split(", "), list(name), f"{float(row['mrn']):e}")
print(json.dumps(row), pydicom.dcmread(next(root.rglob("*.dcm"))))
raise KeyError(f"{path}: {name} {row['mrn']}")
"""


@dataclass
class Shown:
    """What a role was told last, and what it was told first."""

    first: str
    words: str
    results: Mapping[str, str]

    @property
    def clinic(self) -> str:
        """As the card has it for whoever is outside."""
        found = re.search(r"hospital (\w+),", self.first)
        assert found, self.first
        return found[1]


Step = Callable[[Shown], list[Use]]


class StandIn(Endpoint):
    """Plays a run by steps: role -> what it does, one after the other."""

    def __init__(self, protocol: Protocol, roles: Mapping[str, str]) -> None:
        """`roles`: system prompt -> role; of a run without collaboration one prompt is all."""
        super().__init__(protocol, [])
        self.prompts = roles
        self.play({})

    def play(self, steps: Mapping[str, list[Step]]) -> None:
        self.steps = steps
        self.sent: dict[str, list[str]] = {role: [] for role in steps}

    def answer(self, path: str, key: str | None, body: dict[str, Any]) -> Reply:
        try:
            self.protocol.check(body)
            return self._answer(body)
        except Exception as error:
            self.wrong.append(f"{type(error).__name__}: {error}")
            return self.protocol.error(400, "invalid_request_error", "see the test")

    def _answer(self, body: dict[str, Any]) -> Reply:
        said = self.protocol.said(body)
        role = self.prompts[self.protocol.system(body)]
        if role == "solo":
            went_on = [word for one in said for word in re.findall(r"Your work goes on as (\w+)", one.words)]
            built = "# Cases, as trusted programs" in said[0].words
            role = went_on[-1] if went_on else "module_architect" if built else "task_manager"
        told = {key: body[key] for key in body if key not in ("system", "tools")}
        if self.protocol.name == "openai":
            told["messages"] = body["messages"][1:]
        self.sent[role].append(json.dumps(told, ensure_ascii=False))
        assert not any(one.pictures for one in said), "no picture leaves"
        shown = Shown(said[0].words, said[-1].words, {i: text for i, (_, text) in said[-1].results.items()})
        number = len(self.sent[role]) - 1
        assert number < len(self.steps[role]), f"{role} is asked once more: {shown.words} {shown.results}"[:3000]
        uses = [(f"{role}-{number}-{name}", tool, given) for name, tool, given in self.steps[role][number](shown)]
        return self.protocol.reply(*uses)


def steps(task: str, metric: str, seconds: int) -> dict[str, list[Step]]:
    """What any team might do, and a person is asked twice."""

    def ask(shown: Shown) -> list[Use]:
        return [("q", "ask_person", {"key": "contact", "text": f"Whom at {shown.clinic} may I ask?", "wants": "text"})]

    def plan(shown: Shown) -> list[Use]:
        [dataset] = re.findall(r"dataset_id: ([^\s,]+)", shown.first)
        told = f"The data are of {shown.clinic}. Say so in a page."
        made = {"task": task, "dataset_id": dataset, "reason": f"the films of {shown.clinic} fit", "dimensions": 2,
                "modality": "X-ray", "metric": metric, "instructions": {"module_architect": told}}  # fmt: skip
        return [("p", "submit_plan", made)]

    def look(shown: Shown) -> list[Use]:
        target = {"task": task, "dimensions": 2, "target": "what was asked for"}
        return [("d", "preview_dirs", {}), ("p", "propose_rules", target), ("s", "run_script", {"script": LOOK})]

    def closer(shown: Shown) -> list[Use]:
        proposed = next(text for name, text in shown.results.items() if name.endswith("-p"))
        rules = RULES.search(proposed)
        assert rules, proposed
        there = next(text for name, text in shown.results.items() if name.endswith("-s"))
        paths = [f"/data/{one.strip()}" for one in re.findall(r"^.*\.(?:dcm|json|csv|txt)$", there, re.MULTILINE)]
        paths = [*paths[:4], *(one for one in paths if one.count("/") == 2)]
        write = {"files": {"dataset.yaml": rules[1]}}
        return [
            ("f", "preview_files", {"paths": paths}), ("r", "read_files", {"paths": paths[1:]}),
            ("m", "read_files", {"paths": [f"/m3/{paths[0].rsplit('/', 1)[1]}"]}), ("w", "write_files", write),
            ("t", "try_rules", {"text": rules[1]}),
        ]  # fmt: skip

    def sure(shown: Shown) -> list[Use]:
        text = "Which column tells the class?"
        return [("q", "ask_person", {"key": "column", "text": text, "wants": "text"})]

    def prepared(shown: Shown) -> list[Use]:
        return [("e", "submit_dataset", {"notes": ["done"]})]

    def build(shown: Shown) -> list[Use]:
        one = shown.clinic
        page = f"Data of {one}, {one.lower()}, {one.upper()}."
        script = f"import glob\nprint(glob.glob('/cases/*')[:3])\nname = '{one}'\nraise KeyError(name.lower())"
        begin = [] if "Called for you already" in shown.first else [
            ("c", "copy_files", {"source": f"/templates/{task}", "destination": "/workspace"}),
            ("v", "read_files", {"paths": [f"/templates/{task}/config.yaml"]})]  # fmt: skip
        own = "with open('/workspace/predict.py', 'a') as file:\n    file.write('\\nprint(\"" + one + "\")\\n')"
        return [*begin, ("w", "write_files", {"files": {"OF_THE_DATA.md": page, "fails.py": script}}),
                ("s", "run_script", {"script": script}), ("o", "run_script", {"script": own})]  # fmt: skip

    def assembled(shown: Shown) -> list[Use]:
        module = {"template": task, "input_shape": [1, 64, 64], "notes": f"{shown.clinic} uses films",
                  "confirmed": True}  # fmt: skip
        return [("m", "submit_module", module)]

    def fail(shown: Shown) -> list[Use]:
        return [
            ("r", "read_files", {"paths": ["OF_THE_DATA.md", "config.yaml", "predict.py"]}),
            ("t", "start_training", {"command": ["python", "fails.py"], "seconds": 10}),
        ]

    def train(shown: Shown) -> list[Use]:
        edit = {"path": "config.yaml", "set": {"training.train_seconds": seconds}}
        start = {"command": ["python", "train.py", "--config", "config.yaml"], "seconds": seconds}
        return [("e", "edit_files", edit), ("t", "start_training", start)]

    def deliver(shown: Shown) -> list[Use]:
        job = re.search(r"job (\S+) is queued", str(shown.results))
        assert job, shown.results
        return [("s", "submit_training", {"job_id": job[1], "hyper_parameters": {}, "notes": "done"})]

    return {
        "task_manager": [ask, plan],
        "data_engineer": [look, closer, sure, prepared],
        "module_architect": [build, assembled],
        "model_trainer": [fail, train, deliver],
    }
