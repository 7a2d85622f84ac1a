"""Intake's two programs in the sandbox, and what is read of what they leave: bytes, and bounded, validated records."""

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from services.tool_runner.mounts import REPOSITORY, copied
from services.tool_runner.sandbox import Finished, Level, Limits, Mount, remove_tree, run
from shared.contracts.cases import CaseSpec, Coverage, Persons, Proposal
from shared.contracts.rules import Rules
from shared.contracts.runs import TaskPlan
from shared.dataset.intake.intake_records import LOOKS, OUT, PERSONS, RECORDS, SPECS, Order, Taken
from shared.dataset.rules.listed import HANDED_OVER
from shared.errors import ToolBroken, ToolRefused
from shared.looks import FLAT, RECORD, SOLID
from shared.store.paths import UnsafePath, open_inside, parts_of

PROGRAM, RESOLVER = "shared.dataset.intake.intake", "shared.dataset.rules.resolve"
_SEARCH, _PROPOSED, _MOST = "shared.dataset.propose", "proposals.jsonl", 8
_FOLDERS = ("shared/dataset", "shared/imaging", "shared/vocabulary")
SECONDS = 25.0
"""Of a search for rules, which no bound of time within it has then cut short."""
_FILES = ("base", "cases", "profile", "rules", "values", "wrapping")
_RESERVE_MB = 300
"""Of the sandbox's memory, for the program beside its workers."""
_LINE = 64 << 20
"""Longest line of a CaseSpec: runs of pixels stand in it."""
_RECORD_LINE = 64 << 10
_IMAGE = re.compile(r"image(_[1-9]\d{0,2})?\.(png|tif|nii\.gz)")
_MASK = re.compile(r"mask\.(png|nii\.gz)")


class Cancelled(Exception):
    """Somebody asked the job to stop."""


@dataclass(frozen=True)
class Shard:
    """What the program made of some cases, below `folder`; nothing of it is trusted."""

    folder: Path
    taken: dict[int, Taken]
    """Number of the case -> its record; cases that it did not come to are missing."""

    def look(self, number: int) -> bytes:
        """One `shared.looks.RECORD`; zeros where there is none, or none that is valid."""
        with open_inside(self.folder, LOOKS) as looks:
            found = os.pread(looks.fileno(), RECORD.itemsize, number * RECORD.itemsize)
        return found if len(found) == RECORD.itemsize and found[32] in (FLAT, SOLID) else bytes(RECORD.itemsize)

    @contextmanager
    def opened(self, number: int, name: str) -> Iterator[BinaryIO]:
        with open_inside(self.folder, f"{OUT}/{number}/{name}") as stream:
            yield stream


@dataclass(frozen=True)
class IntakeSandbox:
    """One job's runs. `home` is the runner's, `scratch` a folder that does not exist yet, `log` beside no sandbox."""

    home: Path
    scratch: Path
    log: Path
    level: Level
    workers: int
    memory_mb: int
    cancel: asyncio.Event
    seconds: int = 300
    """Of processor time, for one case."""

    def beside(self, name: str) -> "IntakeSandbox":
        """For a run at the same time."""
        return replace(
            self, scratch=self.scratch.with_name(f"{self.scratch.name}-{name}"), log=self.log.with_suffix(f".{name}")
        )

    async def resolve(
        self, data: Path, rules: Rules, listed: bytes | None = None, whose: bool = True
    ) -> tuple[list[CaseSpec], Coverage, tuple[Persons, ...]]:
        """The cases that the rules find, and, where asked `whose`, whose they are by the files themselves.

        Raises ToolRefused, in the program's words, for rules that cannot be followed.
        """
        self.scratch.mkdir(parents=True)
        try:
            (self.scratch / "rules.yaml").write_text(rules.model_dump_json())
            if listed is not None:
                (self.scratch / HANDED_OVER).write_bytes(listed)
            words = [RESOLVER, "rules.yaml", *(["--persons"] if whose else [])]
            done = await self._run(data, words, seconds=3600, file_mb=8192)
            found = await asyncio.to_thread(self._resolved, done, whose)
            # What the program said quotes names of files and cells, and nobody needs it any more.
            self.log.unlink(missing_ok=True)
            return found
        finally:
            await asyncio.to_thread(remove_tree, self.scratch)

    def _resolved(self, done: Finished, whose: bool) -> tuple[list[CaseSpec], Coverage, tuple[Persons, ...]]:
        try:
            with open_inside(self.scratch, "coverage.json") as stream:
                coverage = Coverage.model_validate_json(stream.read(_LINE))
            with open_inside(self.scratch, SPECS) as stream:
                specs = [_spec(line) for line in _lines(stream, _LINE)]
            persons: tuple[Persons, ...] = ()
            if whose:
                with open_inside(self.scratch, PERSONS) as stream:
                    persons = tuple(Persons.model_validate_json(line) for line in _lines(stream, _LINE))
        except (FileNotFoundError, UnsafePath, ValidationError, ValueError) as error:
            tail = self.log.read_text(errors="replace")[-1500:]
            raise ToolRefused(
                f"the rules could not be carried out ({done.outcome}, exit code {done.exit_code}, "
                f"{type(error).__name__}): {tail}"
            ) from None
        return specs, coverage, persons

    async def propose(self, data: Path, words: Sequence[str]) -> tuple[tuple[Proposal, ...], bool]:
        """What the search makes of the files and `search_words`, nothing where it does not come to an end; and whether
        it had all the time it wanted."""
        self.scratch.mkdir(parents=True)
        try:
            done = await self._run(data, [*words, f"--out={_PROPOSED}"], seconds=570, file_mb=1024)
            found = await asyncio.to_thread(self._proposed)
            return found, done.outcome == "ok" and done.seconds < SECONDS
        except (FileNotFoundError, UnsafePath, ValueError):
            return (), False
        finally:
            self.log.unlink(missing_ok=True)
            await asyncio.to_thread(remove_tree, self.scratch)

    def _proposed(self) -> tuple[Proposal, ...]:
        with open_inside(self.scratch, _PROPOSED) as stream:
            found = tuple(Proposal.model_validate_json(line) for line in islice(_lines(stream, _LINE), _MOST))
        for one in found:
            Rules.model_validate(one.rules)
        return found

    async def decode(self, data: Path, specs: Sequence[CaseSpec], order: Order) -> Shard:
        """Decode cases into `scratch`, which the caller removes. Raises Cancelled."""
        await asyncio.to_thread(self._prepare, specs)
        order = order.model_copy(update={"memory_mb": max(self.memory_mb - _RESERVE_MB, self.memory_mb // 2)})
        # Only an end for what does not end by itself; a case is bounded by its own seconds.
        await self._run(data, [PROGRAM, order.model_dump_json()], seconds=600 + 20 * len(specs), file_mb=16384)
        return Shard(self.scratch, await asyncio.to_thread(self._records, len(specs)))

    def _prepare(self, specs: Sequence[CaseSpec]) -> None:
        self.scratch.mkdir(parents=True)
        with (self.scratch / SPECS).open("w") as listing:
            listing.writelines(f"{spec.model_dump_json()}\n" for spec in specs)

    def _records(self, count: int) -> dict[int, Taken]:
        found: dict[int, Taken] = {}
        try:
            with open_inside(self.scratch, RECORDS) as stream:
                for line in _lines(stream, _RECORD_LINE):
                    taken = _taken(line)
                    if taken is not None and taken.n < count:
                        found[taken.n] = taken
        except (FileNotFoundError, UnsafePath, ValueError):
            tail = self.log.read_text(errors="replace")[-1500:]
            raise ToolBroken(f"intake left no readable records: {tail}") from None
        return found

    async def _run(self, data: Path, words: list[str], seconds: float, file_mb: int) -> Finished:
        done = await run(
            ["python", "-P", "-m", *words],
            workspace=self.scratch,
            mounts=[Mount(data, "/data", env="M3_DATA"), Mount(programs(self.home), "/m3")],
            limits=Limits(seconds=seconds, memory_mb=self.memory_mb, file_mb=file_mb, output_mb=1, threads=1),
            log=self.log,
            level=self.level,
            cancel=self.cancel,
        )
        if done.outcome == "cancelled":
            raise Cancelled
        return done


def search_words(plan: TaskPlan, request: str, only: Sequence[str] = ()) -> list[str]:
    """The search for rules that follow from plan and request, or from `only` some names in them, as the Data Engineer
    asks for it."""
    words = [_SEARCH, f"--task={plan.task}", f"--dimensions={plan.dimensions}", f"--target={request[:500]}"]
    return [*words, f"--only={','.join(only or plan.labels)}", f"--limit={_MOST}"]


def programs(home: Path) -> Path:
    """A folder with the programs, called by a digest of their text."""
    every = [path for folder in _FOLDERS for path in sorted((REPOSITORY / folder).rglob("*"))]
    files = [path for path in every if path.suffix in (".py", ".yaml")]
    files += [REPOSITORY / "shared" / "contracts" / f"{name}.py" for name in _FILES]
    return copied(home, [*files, REPOSITORY / "shared" / "looks.py"])


def _lines(stream: BinaryIO, longest: int) -> Iterator[bytes]:
    """Raises ValueError for a line that is longer."""
    while line := stream.readline(longest + 1):
        if len(line) > longest:
            raise ValueError("a line is too long")
        yield line


def _spec(line: bytes) -> CaseSpec:
    """Raises UnsafePath for a file that could lie outside of the dataset."""
    spec = CaseSpec.model_validate_json(line)
    for channels in spec.images:
        for part in channels:
            for file in part.files:
                parts_of(file)
    for mask in spec.masks:
        for file in mask.files:
            parts_of(file)
    return spec


def _taken(line: bytes) -> Taken | None:
    """None where the line is no record, or names what is no canonical file."""
    try:
        taken = Taken.model_validate_json(line)
    except ValidationError:
        return None
    if taken.left_out:
        return Taken(n=taken.n, left_out=taken.left_out[:500], ended=taken.ended)
    names = [name.partition(".")[0] for name in taken.images]
    in_order = names == ["image", *(f"image_{number}" for number in range(1, len(names)))]
    fits = in_order and all(_IMAGE.fullmatch(name) for name in taken.images)
    return taken if fits and (taken.mask is None or _MASK.fullmatch(taken.mask)) else None
