"""The gateway as a client sees it: HTTP problems become the errors that a command prints."""

import json
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from services.gateway.bodies import Erasure, Login, Me
from services.gateway.fleet_model import Fleet
from services.gateway.items import Item
from services.gateway.login import Credentials
from services.gateway.openid import certificates
from services.gateway.record import Record
from services.gateway.trace_model import Trace
from shared.agent.brief import Brief
from shared.contracts.base import Ref
from shared.contracts.disclosure import Disclosed
from shared.contracts.questions import Point, Question
from shared.contracts.runs import Budget, DataCard, RunFinished, RunSummary, Switch
from shared.contracts.transcript import Waiting
from shared.contracts.weights import Suffix, Weights
from shared.errors import M3Error, NotFound, Unavailable, UserError
from shared.settings import Settings
from shared.store.archive_rules import Limits

log = logging.getLogger(__name__)

RECONNECT_SECONDS = 60.0
ERASE_SECONDS = 2 * 3600.0
_FINISHED = RunFinished.model_fields["kind"].default


class Unreachable(M3Error):
    """Nobody answers at the gateway's address, or what it needs is down."""


class Gateway:
    """Blocking. `close` it, or use it as a context manager."""

    def __init__(self, settings: Settings) -> None:
        """Of the gateway at `gateway_url`, by the token of the settings or of the login there."""
        self.url = settings.gateway_url
        # Own machine or cluster: a proxy from the environment has no business in between.
        self._http = httpx.Client(
            base_url=self.url,
            auth=Credentials(settings),
            timeout=httpx.Timeout(30, connect=3),
            trust_env=False,
            verify=certificates(),
        )
        self._heard_at = 0.0

    def __enter__(self) -> "Gateway":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def request_run(
        self,
        requirement: str,
        core: str = "playbook",
        seed: int = 0,
        budget: Budget | None = None,
        dataset: str | None = None,
        approvals: Sequence[Point] = (),
        unattended: bool = False,
        without: Sequence[Switch] = (),
    ) -> str:
        body: dict[str, Any] = {"requirement": requirement, "core": core, "seed": seed, "unattended": unattended}
        body |= {"dataset": dataset, "approvals": list(approvals), "without": list(without)}
        if budget:
            body["budget"] = budget.model_dump(mode="json")
        created = self._ask("POST", "/runs", json=body)
        for note in created["notes"]:
            log.warning(note)
        return str(created["run_id"])

    def runs(self) -> list[RunSummary]:
        return [RunSummary.model_validate(run) for run in self._ask("GET", "/runs")]

    def run(self, run_id: str) -> RunSummary:
        return RunSummary.model_validate(self._ask("GET", f"/runs/{run_id}")["summary"])

    def question(self, run_id: str) -> Question | None:
        """What the run waits for a person to say."""
        found = self._ask("GET", f"/runs/{run_id}")["question"]
        return Question.model_validate(found) if found else None

    def waiting(self, run_id: str) -> Waiting | None:
        """The endpoint of a language model that the run waits for."""
        found = self._ask("GET", f"/runs/{run_id}").get("waiting")
        return Waiting.model_validate(found) if found else None

    def answer(self, run_id: str, key: str, value: str) -> str:
        """The run's status afterwards. Raises UserError for a value that the question does not take."""
        body = {"key": key, "value": value}
        return str(self._ask("POST", f"/runs/{run_id}/answers", json=body)["status"])

    def login(self) -> Login:
        """How one logs in there. Raises NotFound for a gateway with a token of its own."""
        return Login.model_validate(self._ask("GET", "/login", auth=None))

    def me(self) -> Me:
        """As whom one is known there."""
        return Me.model_validate(self._ask("GET", "/me"))

    def audit(self) -> Iterator[dict[str, Any]]:
        """Every visit of the gateway, the oldest first."""
        try:
            with self._http.stream("GET", "/audit") as answer:
                if answer.is_error:
                    answer.read()
                    _raise(answer)
                yield from map(json.loads, answer.iter_lines())
        except httpx.TransportError as error:
            raise self._gone(error) from None

    def fleet(self) -> Fleet:
        return Fleet.model_validate(self._ask("GET", "/fleet"))

    def trace(self, run_id: str) -> Trace:
        return Trace.model_validate(self._ask("GET", f"/runs/{run_id}/trace"))

    def disclosure(self, run_id: str) -> list[Disclosed]:
        return [Disclosed.model_validate(one) for one in self._ask("GET", f"/runs/{run_id}/disclosure")]

    def disclosed_text(self, run_id: str, number: int) -> str:
        return str(self._ask("GET", f"/runs/{run_id}/disclosure/{number}"))

    def cancel(self, run_id: str, reason: str = "") -> str:
        return str(self._ask("POST", f"/runs/{run_id}/cancel", json={"reason": reason})["status"])

    def add_dataset(
        self, card: str, path: Path | None = None, here: bool = True, archive: Ref | None = None
    ) -> dict[str, Any]:
        body = {
            "card": card,
            "path": str(path) if path else None,
            "here": here,
            "archive": archive.model_dump(mode="json") if archive else None,
        }
        # A runner looks at the files first.
        timeout = httpx.Timeout(30, connect=3, read=900)
        answer: dict[str, Any] = self._ask("POST", "/datasets", json=body, timeout=timeout)
        return answer

    def datasets(self) -> list[DataCard]:
        return [DataCard.model_validate(card) for card in self._ask("GET", "/datasets")]

    def add_weights(
        self, name: str, file: Ref, suffix: Suffix, licence: str, source: str, learned_from: Sequence[str] = ()
    ) -> Weights:
        body = {"name": name, "file": file.model_dump(mode="json"), "suffix": suffix}
        # A runner looks at the file first.
        timeout = httpx.Timeout(30, connect=3, read=900)
        body |= {"licence": licence, "source": source, "learned_from": list(learned_from)}
        return Weights.model_validate(self._ask("POST", "/weights", json=body, timeout=timeout))

    def weights(self) -> list[Weights]:
        return [Weights.model_validate(found) for found in self._ask("GET", "/weights")]

    def remove_weights(self, name: str) -> None:
        self._ask("DELETE", f"/weights/{quote(name, safe='')}")

    def limits(self) -> Limits:
        return Limits(**self._ask("GET", "/archives/limits"))

    def send_archive(self, chunks: Iterable[bytes], size: int) -> Ref:
        """Send `size` bytes in chunks; the answer names what was stored. The store may take its time at the end."""
        headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        timeout = httpx.Timeout(30, connect=3, read=60 + size / 4e6)
        return Ref.model_validate(self._ask("POST", "/archives", content=chunks, headers=headers, timeout=timeout))

    def erase(self, ids: Sequence[str], older_than: float | None, dry_run: bool) -> Erasure:
        """Of all runs and datasets named, and of all that is older than so many days; lasts as long as it takes."""
        body = {"ids": list(ids), "older_than_days": older_than, "dry_run": dry_run}
        timeout = httpx.Timeout(ERASE_SECONDS, connect=3)
        return Erasure.model_validate(self._ask("POST", "/erasures", json=body, timeout=timeout))

    def record(self, run_id: str) -> Record:
        return Record.model_validate(self._ask("GET", f"/runs/{run_id}/artifacts/record"))

    def briefs(self, run_id: str) -> dict[str, Brief]:
        """Role -> what it was woken with last."""
        found = self._ask("GET", f"/runs/{run_id}/briefs")
        return {role: Brief.model_validate(brief) for role, brief in found.items()}

    def follow(self, run_id: str) -> Iterator[Item]:
        """Every item of a run once, until RunFinished. Reconnects with Last-Event-ID while the gateway restarts."""
        last, turns = 0, set[tuple[str, int]]()
        self._heard_at = time.monotonic()
        while True:
            try:
                for item in self._items(run_id, last):
                    if item.kind == "error":  # the gateway is there, what it needs is not
                        break
                    self._heard_at = time.monotonic()
                    if item.kind == "turn":
                        turn = json.loads(item.data)
                        if (turn["role"], turn["number"]) in turns:
                            continue
                        turns.add((turn["role"], turn["number"]))
                    last = item.id or last
                    yield item
                    # However long the caller took, as for a person's answer, was not the gateway's silence.
                    self._heard_at = time.monotonic()
                    if item.kind == _FINISHED:
                        return
            except (httpx.TransportError, Unreachable, Unavailable):
                pass
            if time.monotonic() - self._heard_at > RECONNECT_SECONDS:
                raise Unreachable(f"The gateway at {self.url} is gone. The run goes on: `m3builder watch {run_id}`.")
            time.sleep(0.5)

    def download(self, path: str, target: Path, patience: float = 30) -> Iterator[tuple[int, int]]:
        """Write the answer to `target`; yields (bytes so far, bytes in all). `patience`: seconds until it begins."""
        try:
            timeout = httpx.Timeout(patience, connect=3)
            with self._http.stream("GET", path, timeout=timeout) as answer, target.open("wb") as file:
                if answer.is_error:
                    answer.read()
                    _raise(answer)
                total, done = int(answer.headers.get("Content-Length", 0)), 0
                for chunk in answer.iter_bytes(1 << 20):
                    file.write(chunk)
                    done += len(chunk)
                    yield done, total
        except httpx.TransportError as error:
            raise self._gone(error) from None

    def _items(self, run_id: str, after: int) -> Iterator[Item]:
        headers = {"Last-Event-ID": str(after)} if after else {}
        with self._http.stream("GET", f"/runs/{run_id}/events", headers=headers) as answer:
            if answer.is_error:
                answer.read()
                _raise(answer)
            fields: dict[str, str] = {}
            for line in answer.iter_lines():
                if line.startswith(":"):
                    self._heard_at = time.monotonic()  # nothing new, but alive
                elif line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "event" in fields:
                    yield Item(fields["event"], fields["data"], int(fields["id"]) if "id" in fields else None)
                    fields = {}
                else:
                    fields = {}

    def _ask(self, method: str, path: str, **content: Any) -> Any:
        try:
            answer = self._http.request(method, path, **content)
        except httpx.TransportError as error:
            raise self._gone(error) from None
        if answer.is_error:
            _raise(answer)
        return answer.json()

    def _gone(self, error: Exception) -> Unreachable:
        return Unreachable(
            f"The gateway at {self.url} does not answer ({type(error).__name__}). Is it up? `m3builder up`"
        )


def _raise(answer: httpx.Response) -> None:
    try:
        problem = answer.json()
        text = f"{problem['error']} {problem.get('hint') or ''}".strip()
    except (ValueError, KeyError, TypeError):
        text = f"The gateway answered {answer.status_code}."
    match answer.status_code:
        case 404:
            raise NotFound(text)
        case 500 | 502 | 503 | 504:
            raise Unreachable(text)
        case _:
            raise UserError(text)
