"""IU-Xray in miniature: chest films in one or more views a study, reports as a table, with gaps and XXXX.

Of the real reports the specification says only that they are mostly normal text; how frequent each finding is, it
does not say. Here a quarter of the studies is normal and the others have about three findings, signs or devices of 19,
each in 8 to 18 % of the studies: more than in reality, so that few studies show each often and a report has to follow
its image. What is normal beside that is said in short sentences, as it is there.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from m3bench.phantoms.film_signs import DEVICES, HIGH, LOW, draw_instead, draw_sign, person_with
from m3bench.phantoms.xray import Person, developed, frontal, lateral
from m3bench.phantoms.xray_findings import DRAWINGS, EXTENDED, PLACES, draw
from m3bench.replicas import Replica, processes
from m3bench.scanners.noise import stream
from m3bench.words.iu_words import MESH, Fact, mesh, report
from m3bench.words.reports import known_scores, one_of, usual
from m3bench.writers.formats import write_picture, write_table

PATIENTS = {"tiny": 480, "small": 720, "layout": 3851}
"""Studies."""
PIXELS = {"tiny": 96, "small": 160, "layout": 12}
IMAGES = 7466
NORMAL = 0.25
PREVALENCE = {
    "Cardiomegaly": 0.18, "Tortuous aorta": 0.12, "Hiatal hernia": 0.09, LOW: 0.12, HIGH: 0.14, "Atelectasis": 0.16,
    "Calcification": 0.16, "Consolidation": 0.16, "Effusion": 0.18, "Emphysema": 0.11, "Fibrosis": 0.14,
    "Fracture": 0.11, "Mass": 0.13, "Nodule": 0.15, "Pneumothorax": 0.11, "Scoliosis": 0.18, "Pacemaker": 0.12,
    "Port": 0.12, "Sternal wires": 0.12,
}  # fmt: skip
"""Share of the studies, before what excludes each other is taken out."""
SIDED = frozenset({"Scoliosis", "Pacemaker", "Port"})
"""Signs on one side, beside the findings of the lungs, which all have a place."""
PLAIN = 0.6
"""How much stronger findings are drawn than they are in themselves: few studies have to show them to a small model."""
REPORTS = ("uid", "MeSH", "Problems", "image", "indication", "comparison", "findings", "impression")
PROJECTIONS = ("uid", "filename", "projection")


@dataclass(frozen=True)
class Study:
    uid: int
    facts: tuple[Fact, ...]
    views: tuple[tuple[str, str], ...]
    """File name and projection."""
    empty: str
    """Which texts are missing: '', 'findings' or 'both'."""


def make(root: Path, *, size: str, seed: int, patients: int | None, layout: str, workers: int) -> dict[str, object]:
    """Write the dataset into the empty `root`; returns the truth about it."""
    exact = size == "layout" and patients in (None, PATIENTS["layout"])
    studies = _plan(patients or PATIENTS[size], seed, exact)
    folder = root / ("images" if layout == "paper" else "images/images_normalized")
    folder.mkdir(parents=True)
    with processes(workers) as mapped:
        list(mapped(_write, [(str(folder), seed, study, PIXELS[size]) for study in studies]))
    rng = stream("iu-xray", seed, "missing")
    plain = [study for study in studies if len(study.views) == 2]
    lost = plain[int(rng.integers(len(plain)))].views[1][0]
    (folder / lost).unlink()
    rows = {study.uid: _row(study, seed) for study in studies}
    shown = [[study.uid, *view] for study in studies for view in study.views]
    if layout == "paper":
        merged = [[*cells, *rows[int(str(cells[0]))][1:]] for cells in shown]
        write_table(root / "indiana_samples.csv", [*PROJECTIONS, *REPORTS[1:]], merged)
    else:
        write_table(root / "indiana_reports.csv", REPORTS, [rows[study.uid] for study in studies])
        write_table(root / "indiana_projections.csv", PROJECTIONS, shown)
    texts = [str(rows[study.uid][6]) for study in studies]
    scores = known_scores(
        texts,
        lambda index: report(studies[index].facts, stream("iu-xray", seed, studies[index].uid, "again")).findings,
        usual(texts),
    )
    return {
        "labels": sorted(MESH),
        "sample_unit": "study",
        "split_unit": "uid",
        "studies": [asdict(study) for study in studies],
        "quirks": [
            {"quirk": "missing_file", "path": lost},
            *({"quirk": f"empty_{study.empty}", "path": str(study.uid)} for study in studies if study.empty),
            *({"quirk": "number_of_views", "path": str(study.uid)} for study in studies if len(study.views) != 2),
        ],
        **scores,
    }


def _plan(count: int, seed: int, exact: bool) -> list[Study]:
    rng = stream("iu-xray", seed, "plan")
    uids = sorted((rng.choice(np.arange(1, round(1.04 * count) + 3), count, replace=False)).tolist())
    views = np.full(count, 2)
    places = rng.permutation(count)
    if exact:
        views[places[:256]], views[places[256:276]] = 1, 3
        views[places[276]] += IMAGES - int(views.sum())
    else:
        views[places[: max(1, count // 10)]] = 1
        views[places[-2:]] = 3
    empty = np.full(count, "", dtype="<U8")
    gaps = rng.permutation(count)
    none, both = max(1, round(0.08 * count)), max(1, round(0.02 * count))
    empty[gaps[:none]] = "findings"
    empty[gaps[none : none + both]] = "both"
    return [
        Study(uid, _facts(rng), _views(uid, many, rng), gap)
        for uid, many, gap in zip(uids, views.tolist(), empty.tolist(), strict=True)
    ]


def _facts(rng: np.random.Generator) -> tuple[Fact, ...]:
    """Each finding of the lungs on a place of its own, what spreads wide first; at most one device."""
    if rng.random() < NORMAL:
        return ()
    here = [name for name, share in PREVALENCE.items() if rng.random() < share / (1 - NORMAL)]
    for rivals in ((LOW, HIGH), ("Emphysema", "Pneumothorax"), DEVICES):
        extra = rng.permutation([name for name in here if name in rivals])[1:].tolist()
        here = [name for name in here if name not in extra]
    taken: set[tuple[int, int]] = set()
    facts: list[Fact] = []
    for name in sorted(here, key=lambda name: (name in DRAWINGS, name not in EXTENDED, name)):
        if name not in DRAWINGS:
            facts.append((name, int(rng.choice([-1, 1])) if name in SIDED else 0, 0))
            continue
        places = [(side, zone) for side in (-1, 1) for zone in PLACES.get(name, (0, 1, 2))]
        # Low lungs have no lower zone that could be seen.
        free = [
            place for place in places if place not in taken and (place[1] < 2 or LOW not in here or name == "Effusion")
        ]
        if not free:
            continue
        side, zone = free[int(rng.integers(len(free)))]
        # What fills a lung's upper part or its base leaves no place there for anything else.
        taken |= {(side, 0), (side, 1)} if name in ("Emphysema", "Pneumothorax") else {(side, zone)}
        facts.append((name, side, zone))
    return tuple(facts)


def _views(uid: int, many: int, rng: np.random.Generator) -> tuple[tuple[str, str], ...]:
    """The last number does not tell the projection: both series exist with frontal and with lateral views first."""
    numbers = [(4001, 3001, 5001), (1001, 2001, 3001), (1001, 1002, 2001)][int(rng.integers(3))]
    kinds = ("Frontal", "Lateral", "Frontal", "Lateral", "Frontal")[:many]
    accession = int(rng.integers(1, 4000))
    serial = [*numbers, 6001, 7001]
    return tuple((f"{uid}_IM-{accession:04d}-{serial[n]}.dcm.png", kind) for n, kind in enumerate(kinds))


def _row(study: Study, seed: int) -> list[object]:
    rng = stream("iu-xray", seed, study.uid, "words")
    told = report(study.facts, rng)
    findings, impression = told.findings, told.impression
    if rng.random() < 0.12:
        findings += one_of(rng, " Stable from XXXX.", " XXXX XXXX are unchanged, as far as seen.")
    if rng.random() < 0.03:
        findings = findings.replace(". ", ".\n", 1)
    described = {1: "PA", 2: "PA and Lateral"}.get(len(study.views), "2 Views/PA and Lateral, repeated")
    indication = one_of(
        rng,
        "XXXX-year-old XXXX with chest pain.",
        "Shortness of breath, cough",
        "Positive TB test",
        "XXXX",
        "",
        "Dyspnea",
    )
    return [
        study.uid,
        mesh(study.facts),
        ";".join(MESH[name] for name, _, _ in study.facts) or "normal",
        f"Xray Chest {described}",
        indication,
        one_of(rng, "None.", "XXXX", "Chest radiograph XXXX, XXXX.", ""),
        "" if study.empty else findings,
        "" if study.empty == "both" else impression,
    ]


def _write(job: tuple[str, int, Study, int]) -> None:
    folder, seed, study, pixels = job
    names = {name for name, _, _ in study.facts}
    rng = stream("iu-xray", seed, study.uid)
    person = person_with(Person.draw(rng, large_heart="Cardiomegaly" in names), names, rng)
    for name, projection in study.views:
        rng = stream("iu-xray", seed, name)
        film = (frontal if projection == "Frontal" else lateral)(person, (pixels, pixels), rng)
        for finding, side, zone in study.facts:
            if projection == "Frontal":
                draw_sign(film, finding, side)
            # From the side only the small and the basal ones can be made out.
            if finding in DRAWINGS and (
                projection == "Frontal" or finding in ("Nodule", "Mass", "Consolidation", "Effusion")
            ):
                healthy = film.light.copy()
                for _ in range(3 if finding == "Calcification" else 1):
                    draw(film, finding, rng, side, zone)
                film.light += PLAIN * (film.light - healthy)
        draw_instead(film, names if projection == "Frontal" else ())
        write_picture(Path(folder, name), developed(film, rng))


REPLICA = Replica(
    summary="IU-Xray: chest films with free-text findings and impression",
    make=make,
    patients=PATIENTS,
    megabytes={"tiny": 8, "small": 25, "layout": 32},
    unit="studies",
)
