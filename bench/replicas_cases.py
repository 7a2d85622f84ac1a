"""Whether the cases of the replicas are what was planted, to the voxel: python -m bench.replicas_cases [NAME ...]

Each replica of m3bench is written in both layouts at `tiny`, its rules are searched for as the Data Engineer's playbook
does, and the program of intake carries them out. What it wrote is held against a plain read of the original files
(nibabel, pydicom, Pillow) and the truth of the generator. `right`: files, values, place in space, mask or label or text
all agree; `more`: cases that are none; `targets`: structures or classes that are told apart, of those that occur;
`patients`: right, merged (safe: two people count as one), or TORN (one counts as two, which could stand on both sides
of a split). Where a person is asked, the best answer counts. Exit code 1 where anything is not as planted.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import nibabel
import numpy as np
import pydicom

from bench.replicas_truth import PICTURES, Planted, planted
from m3bench import replicas
from m3bench.readers.arrays import read
from shared.contracts.base import SEGMENTATIONS
from shared.contracts.cases import CaseSpec, Proposal
from shared.contracts.rules import Rules
from shared.dataset.intake.intake_records import OUT, RECORDS, SPECS, Order, Taken
from shared.dataset.propose import explain, propose
from shared.dataset.rules.resolve import resolve

REPOSITORY = Path(__file__).parents[1]


Pairs = Counter[tuple[Hashable, Hashable]]
"""(what was planted, what the case says) -> how often: voxels of structures, or one label."""


@dataclass
class Row:
    """One replica in one layout, compared."""

    cases: int = 0
    faults: list[str] = field(default_factory=list)
    """One a wrong case."""
    missing: int = 0
    more: int = 0
    targets: int = 0
    """Structures or classes that the cases tell apart, of so many that are planted in them."""
    planted: int = 0
    patients: str = "-"
    why: str = ""

    @property
    def right(self) -> int:
        return self.cases - len(self.faults)

    @property
    def good(self) -> bool:
        whole = self.targets == self.planted and "TORN" not in self.patients
        return self.right > 0 and whole and not (self.faults or self.missing or self.more)


def compared(folder: Path, cases: Sequence[CaseSpec], order: Order) -> Row:
    """`cases` taken in and held against what was planted below `folder`."""
    row = Row()
    wanted = {frozenset(case.files): case for case in planted(folder)}
    people: list[tuple[str, str]] = []
    said: list[tuple[str, Pairs]] = []
    with tempfile.TemporaryDirectory(prefix="replicas-cases-") as name:
        for case, taken in zip(cases, taken_in(folder, Path(name), cases, order), strict=True):
            files = frozenset(file for view in case.images for part in view for file in part.files)
            true = wanted.pop(files, None)
            if taken.left_out:
                row.missing += true is not None
                row.why = row.why or (taken.left_out if true else "")
            elif true is None:
                row.more += 1
                row.why = row.why or f"{case.key} is no case"
            else:
                row.cases += 1
                out = Path(name, OUT, str(taken.n))
                people += [(true.patient, case.patient)] if true.patient else []
                if fault := differs(folder, case, true, taken, out):
                    row.faults.append(f"{fault} of {case.key}")
                else:
                    said.append((case.key, pairs(case, true, out / (taken.mask or ""))))
    known = one_for_one([counts for _, counts in said])
    row.faults += [f"target of {key}" for key, counts in said if any(known[true] != one for true, one in counts)]
    row.targets, row.planted = sum(map(bool, known.values())), len(known.keys() - {0})
    lost = [case for case in wanted.values() if not case.doubtful]
    row.missing += len(lost)
    row.why = row.why or next(iter(row.faults), "") or (f"no case of {lost[0].files[0]}" if lost else "")
    row.patients = whose(people)
    return row


def taken_in(folder: Path, out: Path, cases: Sequence[CaseSpec], order: Order) -> list[Taken]:
    """The program of intake, as a process of its own."""
    (out / SPECS).write_text("".join(f"{case.model_dump_json()}\n" for case in cases))
    subprocess.run(
        [sys.executable, "-P", "-m", "shared.dataset.intake.intake", order.model_dump_json()],
        cwd=out, check=True,
        env=os.environ | {"M3_DATA": str(folder), "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return [Taken.model_validate_json(line) for line in (out / RECORDS).read_text().splitlines()]


def differs(folder: Path, case: CaseSpec, true: Planted, taken: Taken, out: Path) -> str:
    """What of image and text is not as planted; empty where all is."""
    views = [[folder / file for file in part.files] for view in case.images for part in view]
    for files, name in zip(views, taken.images, strict=True):
        values, affine = plain(files)
        found, place = plain([out / name])
        if not np.array_equal(values + true.intercept, found):
            return "image"
        if not np.allclose(affine, place, atol=1e-3):
            return "place in space"
    return "text" if " ".join((true.text or "").split()) != " ".join((case.text or "").split()) else ""


def pairs(case: CaseSpec, true: Planted, mask: Path) -> Pairs:
    if true.mask is None:
        return Counter() if true.label is None else Counter([(true.label, case.label)])
    voxels = np.stack([true.mask().ravel(), read([mask]).ravel()])
    kinds, counts = np.unique(voxels, axis=1, return_counts=True)
    return Counter({(int(one), int(other)): int(many) for (one, other), many in zip(kinds.T, counts, strict=True)})


def one_for_one(said: Sequence[Pairs]) -> dict[Hashable, Hashable]:
    """What each planted value is called, which may be another name or number; what is called as another one is, is
    called nothing."""
    known: dict[Hashable, Hashable] = {}
    for (true, found), _ in sum(said, Counter()).most_common():
        if true not in known:
            known[true] = found if found not in known.values() else 0
    return known


def plain(files: Sequence[Path]) -> tuple[np.ndarray, np.ndarray]:
    """A picture in grey (rows, columns), or a volume (x, y, z) on the axes nearest to right, front and head, and its
    affine; what has no place in space holds slices from the feet up."""
    if files[0].name.endswith((".nii", ".nii.gz", ".dcm")):
        image = nibabel.load(files[0]) if files[0].suffix != ".dcm" else series(files)
        turned = nibabel.as_closest_canonical(image)
        return np.asanyarray(turned.dataobj), turned.affine
    if files[0].suffix == ".pt":
        import torch

        return torch.load(files[0], weights_only=True).float().numpy().transpose(2, 1, 0), np.eye(4)
    values = read(files)
    return (values, np.eye(4)) if values.ndim == 2 else (values.transpose(2, 1, 0), np.eye(4))


def series(files: Sequence[Path]) -> nibabel.Nifti1Image:
    """A DICOM series by the positions of its slices."""
    slices = [pydicom.dcmread(file) for file in files]
    along, down = np.array(slices[0].ImageOrientationPatient, float).reshape(2, 3)
    slices.sort(key=lambda one: float(np.cross(along, down) @ np.array(one.ImagePositionPatient, float)))
    first, last = (np.array(one.ImagePositionPatient, float) for one in (slices[0], slices[-1]))
    height, width = (float(edge) for edge in slices[0].PixelSpacing)
    affine = np.eye(4)
    affine[:3, :3] = np.stack([along * width, down * height, (last - first) / max(len(slices) - 1, 1)], axis=1)
    affine[:3, 3] = first
    values = np.stack([one.pixel_array.T * float(one.get("RescaleSlope", 1)) for one in slices], axis=-1)
    return nibabel.Nifti1Image(
        values + float(slices[0].get("RescaleIntercept", 0)), np.diag([-1.0, -1.0, 1.0, 1.0]) @ affine
    )


def whose(people: Sequence[tuple[str, str]]) -> str:
    """(true patient, found one) of each case -> right / merged / TORN."""
    of_true: defaultdict[str, set[str]] = defaultdict(set)
    of_found: defaultdict[str, set[str]] = defaultdict(set)
    for true, found in people:
        of_true[true].add(found)
        of_found[found].add(true)
    torn = sum(len(found) > 1 for found in of_true.values())
    merged = sum(len(true) for true in of_found.values() if len(true) > 1)
    if not people:
        return "-"
    right = len(of_true) - torn - merged
    return f"{right} right" + (f" {merged} merged" if merged else "") + (f" {torn} TORN" if torn else "")


def judged(folder: Path, name: str, task: str, request: str) -> Row:
    dimensions = 2 if name in PICTURES else 3
    found = propose(folder, task, dimensions=dimensions, target=request)
    if not found:
        return Row(missing=len(planted(folder)), why=f"no rules: {explain(folder, task)}")
    rivals = [one for one in found if found[0].key and one.key == found[0].key] or found[:1]
    rows = [_carried_out(folder, one) for one in rivals]
    row = max(rows, key=lambda row: (row.right, row.targets))
    row.why = "; ".join(filter(None, [f"asked for {found[0].key}" if len(rivals) > 1 else "", row.why]))
    return row


def _carried_out(folder: Path, proposal: Proposal) -> Row:
    rules = Rules.model_validate(proposal.rules)
    order = Order(dimensions=rules.dimensions, axis4=rules.axis4, masks=rules.task in SEGMENTATIONS)
    return compared(folder, resolve(rules, folder).cases, order)


def main(names: Sequence[str]) -> int:
    tasks = json.loads((Path(replicas.__file__).parent / "requests.json").read_text())["tasks"]
    counts = f"{'right':>5}{'wrong':>6}{'missing':>8}{'more':>5}"
    print(f"{'replica':14}{'layout':13}{counts}  {'targets':10}{'patients':22}why")
    good = True
    for layout in replicas.LAYOUTS:
        for asked in tasks.values():
            name = asked["card"]
            if names and name not in names:
                continue
            with tempfile.TemporaryDirectory(prefix="replicas-cases-") as home:
                folder = Path(home, "data")
                replicas.make(name, folder, seed=7, layout=layout)
                try:
                    row = judged(folder, name, asked["task"], asked["requests"][0]["text"])
                except Exception as error:  # a defect is a row of the table, not its end
                    row = Row(why=f"BROKEN: {type(error).__name__}: {error}")
            good &= row.good
            counts = f"{row.right:5}{len(row.faults):6}{row.missing:8}{row.more:5}"
            targets = f"{row.targets} of {row.planted}" if row.planted else "-"
            print(f"{name:14}{layout:13}{counts}  {targets:10}{row.patients:22}{row.why[:150]}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
