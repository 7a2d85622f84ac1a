"""The gateway as a client sees it: HTTP problems become the errors that a command prints."""

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx

from services.gateway.items import Item
from services.gateway.record import Record
from services.gateway.trace_model import Trace
from shared.contracts.base import Ref
from shared.contracts.runs import Budget, DataCard, RunFinished, RunSummary
from shared.errors import M3Error, NotFound, UserError
from shared.store.archive_rules import Limits

RECONNECT_SECONDS = 60.0
_FINISHED = RunFinished.model_fields["kind"].default


class Unreachable(M3Error):
    """Nobody answers at the gateway's address, or what it needs is down."""


class Gateway:
    """Blocking. `close` it, or use it as a context manager."""

    def __init__(self, url: str) -> None:
        self.url = url
        # Own machine or cluster: a proxy from the environment has no business in between.
        self._http = httpx.Client(base_url=url, timeout=httpx.Timeout(30, connect=3), trust_env=False)
        self._heard_at = 0.0

    def __enter__(self) -> "Gateway":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def request_run(self, requirement: str, core: str = "playbook", seed: int = 0, budget: Budget | None = None) -> str:
        body = {"requirement": requirement, "core": core, "seed": seed}
        if budget:
            body["budget"] = budget.model_dump(mode="json")
        return str(self._ask("POST", "/runs", json=body)["run_id"])

    def runs(self) -> list[RunSummary]:
        return [RunSummary.model_validate(run) for run in self._ask("GET", "/runs")]

    def run(self, run_id: str) -> RunSummary:
        return RunSummary.model_validate(self._ask("GET", f"/runs/{run_id}")["summary"])

    def trace(self, run_id: str) -> Trace:
        return Trace.model_validate(self._ask("GET", f"/runs/{run_id}/trace"))

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
        answer: dict[str, Any] = self._ask("POST", "/datasets", json=body)
        return answer

    def datasets(self) -> list[DataCard]:
        return [DataCard.model_validate(card) for card in self._ask("GET", "/datasets")]

    def limits(self) -> Limits:
        return Limits(**self._ask("GET", "/archives/limits"))

    def send_archive(self, chunks: Iterable[bytes], size: int) -> Ref:
        """Send `size` bytes in chunks; the answer names what was stored. The store may take its time at the end."""
        headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        timeout = httpx.Timeout(30, connect=3, read=60 + size / 4e6)
        return Ref.model_validate(self._ask("POST", "/archives", content=chunks, headers=headers, timeout=timeout))

    def record(self, run_id: str) -> Record:
        return Record.model_validate(self._ask("GET", f"/runs/{run_id}/artifacts/record"))

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
                    if item.kind == _FINISHED:
                        return
            except (httpx.TransportError, Unreachable):
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
