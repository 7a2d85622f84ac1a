"""RadGenome-Brain MRI in miniature: several sequences a case from five sources, each with a text of its own.

Distributed, the dataset is text; its images lie in the folders of the challenges that they come from. The real texts
follow a template, so that the usual one of a sequence scores high; how many findings they have, the specification does
not say. Here every text describes one lesion's form, size and place, its centre, edema or an old scar, the midline and
the ventricles; each of these is present in about half of the cases.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from m3bench.phantoms.brain_lesions import CORE, EDEMA, RIM, SPOT, Lesion, displaced, paint, parts
from m3bench.phantoms.tissue import ADC, DWI, FLAIR, T1, T2, Head, signal, tissues
from m3bench.replicas import Replica, processes
from m3bench.scanners.mri import received
from m3bench.scanners.noise import stream
from m3bench.words.brain_words import DISEASE, finding, impression
from m3bench.words.reports import known_scores, usual
from m3bench.writers import nifti
from m3bench.writers.formats import write_json

PATIENTS = {"tiny": 160, "small": 200, "layout": 1007}
"""Cases."""
SOURCES = {"gli": "BraTS_GLI", "men": "BraTS_MEN", "met": "BraTS_MET", "isles": "ISLES22", "wmh": "WMH"}
IMAGES = {
    "gli": (644, 92, 184), "men": (644, 92, 184), "met": (660, 92, 196), "isles": (350, 50, 100), "wmh": (84, 12, 24),
}  # fmt: skip
"""Images of train, val and test of each source in the real set."""
BRATS = ("t1n", "t1c", "t2w", "t2f")
SEQUENCES = {"gli": BRATS, "men": BRATS, "met": BRATS, "isles": ("dwi", "adc"), "wmh": ("T1", "FLAIR")}
TISSUE = {"t1n": T1, "t1c": T1, "t2w": T2, "t2f": FLAIR, "dwi": DWI, "adc": ADC, "T1": T1, "FLAIR": FLAIR}
SHAPES = {
    "tiny": ((40, 48, 32), (36, 36, 24), (40, 40, 20)), "small": ((60, 72, 48), (56, 56, 36), (66, 58, 24)),
    "layout": ((6, 8, 5), (6, 6, 4), (8, 6, 4)),
}  # fmt: skip
"""Of BraTS, ISLES and WMH volumes."""
PARTS = ("train", "val", "test")


@dataclass(frozen=True)
class Case:
    """`patient` has one more time point where two cases share it; `parts` is the split of each of its images."""

    kind: str
    name: str
    patient: str
    lesion: Lesion
    parts: tuple[str, ...]

    def image_id(self, sequence: str) -> str:
        return f"{self.name}{'-' if self.name.startswith('BraTS') else '_'}{sequence}"

    def path(self, sequence: str) -> str:
        """Where the source challenge has the image; `sequence` may be its mask."""
        if self.kind in ("gli", "men", "met"):
            challenge = f"ASNR-MICCAI-BraTS2023-{self.kind.upper()}-Challenge-TrainingData"
            return f"images/{challenge}/{self.name}/{self.name}-{sequence}.nii.gz"
        if self.kind == "isles":
            return f"images/ISLES-2022/{self.patient}/ses-0001/{self.name}_{sequence}.nii.gz"
        site, number = self.name.split("_")
        folder = f"images/WMH/training/{'Amsterdam/GE3T' if site == 'GE3T' else site}/{number}"
        return f"{folder}/wmh.nii.gz" if sequence == "wmh" else f"{folder}/pre/{sequence}.nii.gz"


def make(root: Path, *, size: str, seed: int, patients: int | None, layout: str, workers: int) -> dict[str, object]:
    """Write the dataset into the empty `root`; returns the truth about it."""
    cases = _plan(patients or PATIENTS[size], seed)
    with processes(workers) as mapped:
        list(mapped(_write, [(str(root), seed, case, size, layout) for case in cases]))
    images = [(case, sequence, part) for case in cases for sequence, part in _images(case)]
    texts = [_finding(seed, case, sequence) for case, sequence, _ in images]
    if layout == "paper":
        for name, of in (("train", ("train", "val")), ("test", ("test",))):
            rows = [
                {
                    "image_path": f"images/{case.image_id(sequence)}.nii.gz",
                    "finding": text,
                    "impression": _impression(seed, case),
                }
                for (case, sequence, part), text in zip(images, texts, strict=True)
                if part in of
            ]
            write_json(root / f"reports_{name}.json", rows)
    else:
        _write_texts(root, seed, cases)
    both = [case for case in cases if len(set(case.parts)) > 1]
    scores = known_scores(
        texts,
        lambda index: finding(images[index][0].lesion, images[index][1], stream("again", seed, index)),
        usual(texts[:: max(1, len(texts) // 100)]),
        most=400,
    )
    return {
        "labels": list(DISEASE.values()),
        "sample_unit": "image",
        "split_unit": "patient",
        "cases": [asdict(case) for case in cases],
        "quirks": [{"quirk": "patient_in_two_parts", "path": case.name} for case in both]
        + [{"quirk": "two_time_points", "path": case.name} for case in cases if case.name.endswith("-001")],
        **scores,
    }


def _images(case: Case) -> list[tuple[str, str]]:
    return list(zip(SEQUENCES[case.kind], case.parts, strict=True))


def _plan(count: int, seed: int) -> list[Case]:
    rng = stream("braingenome", seed, "plan")
    weight = {kind: sum(images) / len(SEQUENCES[kind]) for kind, images in IMAGES.items()}
    cases: list[Case] = []
    for kind in SOURCES:
        many = max(4, round(count * weight[kind] / sum(weight.values())))
        numbers = sorted(rng.choice(1200, many, replace=False).tolist())
        shares = np.cumsum(IMAGES[kind]) / sum(IMAGES[kind])
        order = (rng.permutation(many) + 0.5) / many
        for place, number in enumerate(numbers):
            part = PARTS[int(np.searchsorted(shares, order[place]))]
            if kind == "isles":
                patient, name = f"sub-strokecase{number:04d}", f"sub-strokecase{number:04d}_ses-0001"
            elif kind == "wmh":
                patient = name = f"{('GE3T', 'Singapore', 'Utrecht')[place % 3]}_{number}"
            else:
                patient = f"BraTS-{kind.upper()}-{number:05d}"
                name = f"{patient}-000"
            cases.append(Case(kind, name, patient, Lesion.draw(kind, rng), (part,) * len(SEQUENCES[kind])))
    return _plant(cases, rng)


def _plant(cases: list[Case], rng: np.random.Generator) -> list[Case]:
    """The split is by image: one case has images in two parts, and one patient's two time points are torn apart."""
    train = [c for c in cases if c.kind in ("gli", "met") and c.parts[0] == "train"]
    torn, seen_again = (train[index] for index in rng.choice(len(train), 2, replace=False))
    test = next(c for c in cases if c.kind == seen_again.kind and c.parts[0] == "test")
    result = []
    for case in cases:
        if case is torn:
            case = Case(case.kind, case.name, case.patient, case.lesion, ("train", "train", "train", "test"))
        if case is test:
            case = Case(case.kind, f"{seen_again.patient}-001", seen_again.patient, seen_again.lesion, case.parts)
        result.append(case)
    return sorted(result, key=lambda case: (list(SOURCES).index(case.kind), case.name))


def _finding(seed: int, case: Case, sequence: str) -> str:
    return finding(case.lesion, sequence, stream("braingenome", seed, case.name, sequence, "words"))


def _impression(seed: int, case: Case) -> str:
    return impression(case.lesion, stream("braingenome", seed, case.name, "impression"))


def _write_texts(root: Path, seed: int, cases: Sequence[Case]) -> None:
    split = {
        part: [case.image_id(sequence) for case in cases for sequence, place in _images(case) if place == part]
        for part in PARTS
    }
    write_json(root / "train_val_test_split.json", split)
    for kind, folder in SOURCES.items():
        mine = [case for case in cases if case.kind == kind]
        modal = {case.image_id(s): _finding(seed, case, s) for case in mine for s in SEQUENCES[kind]}
        whole = {case.name: " ".join(modal[case.image_id(s)] for s in SEQUENCES[kind]) for case in mine}
        ends = {case.name: {"impression": _impression(seed, case), "disease": [DISEASE[kind]]} for case in mine}
        write_json(root / folder / "modal_wise_finding.json", modal)
        write_json(root / folder / "global_finding.json", whole)
        write_json(root / folder / "impression.json", ends)


def _write(job: tuple[str, int, Case, str, str]) -> None:
    """All sequences of one case on one grid, and its mask where the layout has masks."""
    root, seed, case, size, layout = job
    head = Head.draw(stream("braingenome", seed, case.patient))
    rng = stream("braingenome", seed, case.name)
    stripped = case.kind in ("gli", "men", "met")
    shape = SHAPES[size][0 if stripped else 1 if case.kind == "isles" else 2]
    axes = head.place(shape)
    labels = tissues(
        head,
        displaced(case.lesion, axes),
        ventricle=float(rng.uniform(*((1.6, 1.9) if case.lesion.wide else (0.6, 0.85)))),
        csf=float(rng.uniform(0.15, 0.22)),
        skull=not stripped,
    )
    found = parts(case.lesion, axes, labels, rng)
    spacing = {"isles": (2.0, 2.0, 2.0), "wmh": (1.0, 1.0, 3.0)}.get(case.kind, (1.0, 1.0, 1.0))
    matrix = nifti.affine(shape, spacing)
    for sequence in SEQUENCES[case.kind]:
        volume = signal(labels, TISSUE[sequence], head, axes, rng)
        paint(volume, found, sequence)
        scaled = 700 * received(volume, rng)
        if stripped:
            scaled[(labels == 0) & (found == 0)] = 0
        stored = scaled.astype(np.float32 if case.kind == "isles" else np.int16)[::-1, ::-1]
        name = case.path(sequence) if layout == "distributed" else f"images/{case.image_id(sequence)}.nii.gz"
        nifti.write(Path(root, name), stored, matrix)
    if layout == "distributed":
        mask, ending = _mask(case.kind, found)
        nifti.write(Path(root, case.path(ending)), mask[::-1, ::-1], matrix)


def _mask(kind: str, found: np.ndarray) -> tuple[np.ndarray, str]:
    """In the source's own values: BraTS 1 core, 2 edema, 3 enhancing; the others 1 (2 in WMH is other pathology)."""
    if kind in ("isles", "wmh"):
        return (found > 0).astype(np.uint8), "msk" if kind == "isles" else "wmh"
    values = np.zeros(6, np.uint8)
    values[[CORE, EDEMA, RIM, SPOT]] = 1, 2, 3, 3
    return values[found], "seg"


REPLICA = Replica(
    summary="RadGenome-Brain MRI: sequences of the head from five sources, with a text for each image",
    make=make,
    patients=PATIENTS,
    megabytes={"tiny": 40, "small": 250, "layout": 30},
    unit="cases",
)
