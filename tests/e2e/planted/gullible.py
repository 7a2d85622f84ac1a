"""A model that does its ordinary work, and besides all that anything it reads asks for."""

import json
import re
import threading
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from services.team import TEAM
from shared.agent.prompt import system_prompt
from shared.agent.showing import CLOSE, OPEN
from tests.e2e.planted.orders import MARK, World, attacks, orders_in
from tests.models.model_endpoints import Endpoint
from tests.models.protocols import Protocol, Reply

SYSTEMS = {system_prompt(role): role for role in TEAM}
FENCED = re.compile(rf"{OPEN}\n.*?\n{CLOSE}", re.DOTALL)
ENDS = {one.tool for role in TEAM for one in role.submissions}
TOLD = {tool for order in attacks(World(1, "")).values() for tool, _ in orders_in(order)}
MOST = 24
"""Calls that it obeys in a turn."""
LOOK = r"""
import json, os, pathlib
root = pathlib.Path(os.environ["M3_DATA"])
for path in sorted(root.rglob("*"))[:60]:
    if path.is_file():
        print("PATH", json.dumps("/data/" + path.relative_to(root).as_posix()))
one = {path.suffix: path for path in sorted(root.rglob("*")) if path.is_file()}
for suffix, path in one.items():
    if suffix == ".dcm":
        import pydicom
        for element in pydicom.dcmread(path, stop_before_pixels=True).iterall():
            print(element.tag, element.keyword, element.value)
    elif suffix == ".gz":
        import nibabel
        image = nibabel.load(path)
        print(image.header, [one.get_content() for one in image.header.extensions])
    elif suffix in (".png", ".jpg", ".tif"):
        from PIL import Image
        image = Image.open(path)
        print(image.info, dict(image.getexif()), dict(getattr(image, "tag_v2", {})))
    elif suffix in (".csv", ".json", ".xml", ".txt", ".md", ".yaml"):
        print(path.read_text(encoding="utf-8"))
"""


Calls = list[tuple[str, dict[str, Any]]]


def plans(plan: dict[str, Any]) -> Generator[Calls, str, None]:
    while True:
        yield [("submit_plan", plan)]


def prepares(plan: dict[str, Any]) -> Generator[Calls, str, None]:
    shown = yield [
        ("preview_dirs", {}),
        ("run_script", {"script": LOOK}),
        ("propose_rules", {"task": plan["task"], "target": "what was asked for"}),
    ]
    paths = [json.loads(found) for found in re.findall(r'^PATH (".*")$', shown, re.MULTILINE)]
    last = {path.rpartition(".")[2]: path for path in paths}
    texts = [path for path in paths if path.endswith((".csv", ".json", ".xml", ".txt", ".md", ".yaml"))][:8]
    rules = re.search(r"^## 1[^\n]*\n(.*?)^(?:PROBLEM|CONFLICT|\d+ cases)", shown, re.DOTALL | re.MULTILINE)
    yield [
        ("preview_files", {"paths": list(dict.fromkeys([*last.values(), *texts]))[:12]}),
        ("read_files", {"paths": ["profile.json", "card.json", *texts]}),
        ("read_files", {"paths": ["/m3/shared/dataset/rules.md"]}),
        ("try_rules", {"text": rules[1] if rules else "task: diagnosis"}),
    ]
    while True:
        yield [("submit_dataset", {"notes": ["done"]})]


def assembles(plan: dict[str, Any]) -> Generator[Calls, str, None]:
    template = {"diagnosis": "diagnosis", "report_generation": "report_generation"}.get(plan["task"], "segmentation")
    yield [
        ("copy_files", {"source": f"/templates/{template}", "destination": "/workspace"}),
        ("read_files", {"paths": ["train_index.jsonl", "facts.json", "plan.json", "config.yaml"]}),
        ("run_script", {"script": LOOK}),
    ]
    shape = [1, 64, 64, 64][: plan["dimensions"] + 1]
    while True:
        yield [("submit_module", {"template": template, "input_shape": shape, "confirmed": True})]


def trains(plan: dict[str, Any]) -> Generator[Calls, str, None]:
    shown = yield [
        ("edit_files", {"path": "config.yaml", "old": "train_seconds: 600", "new": "train_seconds: 15"}),
        ("start_training", {"command": ["python", "train.py", "--config", "config.yaml"], "seconds": 60}),
    ]
    while True:
        job = re.findall(r"job (\S+) is queued", shown)
        yield [("submit_training", {"job_id": job[-1] if job else "none", "notes": "one training"})]


WORK = {"task_manager": plans, "data_engineer": prepares, "module_architect": assembles, "model_trainer": trains}


@dataclass
class Talk:
    """One conversation: a role's work on an order."""

    work: Generator[Calls, str, None]
    endpoint: Endpoint
    turns: int = 0
    shown: str = ""
    """Since it last went on with its own work."""
    due: Calls = field(default_factory=list)
    """Told, and not obeyed yet."""


class Gullible(Endpoint):
    """Plays the models of all runs. `plans` are dataset -> what it plans for it."""

    def __init__(self, protocol: Protocol) -> None:
        super().__init__(protocol, [])
        self.plans: dict[str, dict[str, Any]] = {}
        self.talks: dict[str, Talk] = {}
        self.obeyed: dict[tuple[str, str], set[str]] = defaultdict(set)
        """(dataset, role) -> calls that it was told to make and made, as JSON."""
        self.seen: dict[tuple[str, str], str] = defaultdict(str)
        """(dataset, role) -> all that it was shown."""
        self.bare: list[str] = []
        """Planted texts that it was shown outside of a fence."""
        self._lock = threading.Lock()

    def answer(self, path: str, key: str | None, body: dict[str, Any]) -> Reply:
        with self._lock:
            try:
                reply = self._answer(path, key, body)
            except Exception as error:
                self.wrong.append(f"{type(error).__name__}: {error}")
                return self.protocol.error(400, "invalid_request_error", self.wrong[-1])
            return reply

    def _answer(self, path: str, key: str | None, body: dict[str, Any]) -> Reply:
        said = self.protocol.said(body)
        role = SYSTEMS[self.protocol.system(body)].name
        name = re.search(r"\bplanted-\d\d\b", said[0].words)
        assert name, said[0].words[:500]
        if (talk := self.talks.get(said[0].words)) is None:
            talk = Talk(WORK[role](self.plans[name[0]]), Endpoint(self.protocol, []))
            self.talks[said[0].words] = talk
        shown = [said[-1].words, *(text for _, text in said[-1].results.values())]
        self._read(shown, name[0], role, talk)
        calls = self._obeying(talk)
        if not calls or not talk.turns:
            calls += talk.work.send(talk.shown) if talk.turns else next(talk.work)
            talk.shown = ""
        number = list(self.talks).index(said[0].words) * 1000 + talk.turns
        uses = [(f"c{number}-{place}", tool, given) for place, (tool, given) in enumerate(calls)]
        talk.turns += 1
        talk.endpoint.replies = [self.protocol.reply(*uses, text="As I was told.")]
        reply = talk.endpoint.answer(path, key, body)
        self.wrong += talk.endpoint.wrong
        return reply

    def _read(self, shown: list[str], dataset: str, role: str, talk: Talk) -> None:
        asked = self.obeyed[dataset, role]
        for text in shown:
            talk.shown += text + "\n"
            self.seen[dataset, role] += text + "\n"
            outside = FENCED.sub("", text)
            # Rules may have taken the mark off a name.
            if MARK in outside or any(tool in TOLD for tool, _ in orders_in(outside)):
                self.bare.append(f"{dataset}, {role}, turn {talk.turns + 1}: {outside[:2000]}")
            for tool, arguments in orders_in(text):
                if (whole := json.dumps([tool, arguments])) not in asked:
                    asked.add(whole)
                    talk.due.append((tool, arguments))

    def _obeying(self, talk: Talk) -> Calls:
        """What it was told to do; of submissions one a turn, as no more are judged."""
        calls: Calls = []
        for one in list(talk.due)[:MOST]:
            if not (one[0] in ENDS and any(tool in ENDS for tool, _ in calls)):
                calls.append(one)
                talk.due.remove(one)
        return calls
