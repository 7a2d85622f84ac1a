"""A document for each picture, and tables that lack the usual form: no header, lists in cells, shapes in cells."""

import json

import numpy as np

from .base import Build, family
from .pictures import chest_film, skin, ultrasound
from .reports import sick, words
from .segmentation_annotations import outline


@family(
    "descriptions_json",
    "diagnosis",
    2,
    "benign or malignant lesions; the truth is in the description of each picture",
    notes="a JSON without suffix for each picture; classes deep in it, a few indeterminate, unknown or missing; "
    "pictures of three formats in one folder; a finer diagnosis beside",
)
def descriptions_json(b: Build) -> None:
    odd = {4: "indeterminate", 9: "unknown", 15: None}
    for i in range(40):
        kind = ("nevus", "melanoma")[i % 2]
        path = b.picture(f"Images/LES_{500 + 3 * i}.{('jpg', 'jpeg', 'png')[i % 3]}", skin(b.rng, kind)[0])
        truth = odd.get(i, ("benign", "malignant")[i % 2])
        known = {"behaviour": truth} if truth else {}
        clinical = {"age": int(b.rng.integers(20, 80)), "diagnosis": kind, "patient_id": f"IP{100 + i % 17}", **known}
        b.json(f"Descriptions/LES_{500 + 3 * i}", {"meta": {"clinical": clinical, "site": b.pick("arm", "back")}}, None)
        if i in odd:
            b.truth["left_out"].append({"file": path, "why": "class not known"})
        else:
            b.case(path, patient=f"IP{100 + i % 17}", label=truth, channels=3)


@family(
    "findings_beside",
    "diagnosis",
    2,
    "Bitte ein Modell, das unsere Aufnahmen klassifiziert",
    notes="a JSON beside each film with three findings (ja/nein), any of which may be meant; side in the file name",
    expect="ask",
    ask="Which finding is the class? (answer: Erguss)",
)
def findings_beside(b: Build) -> None:
    for i in range(36):
        patient = f"N-{300 + i % 18}"
        mass, effusion, wide = (int(b.rng.random() < 0.5) for _ in range(3))
        signs = [name for name, held in (("mass", mass), ("effusion", effusion), ("cardiomegaly", wide)) if held]
        stem = f"Archiv/2021_Q{i % 4 + 1}/{'ABCDEFGHI'[i % 9]}{i % 18:02d}_{b.pick('li', 're')}_{i:02d}"
        path = b.picture(f"{stem}.png", chest_film(b.rng, *signs)[0])
        said = {name: ("nein", "ja")[held] for name, held in (("Erguss", effusion), ("Rundherd", mass), ("Herz", wide))}
        b.text(f"{stem}.json", json.dumps({"Patient": {"Nummer": patient}, "Befund": said}))
        b.case(path, patient=patient, label=said["Erguss"])


@family(
    "label_lists",
    "diagnosis",
    2,
    "multi-label classification by the labels column; rows marked exclude are not wanted",
    notes="labels as Python lists with stray blanks and repeats; rows without picture, one picture without row",
)
def label_lists(b: Build) -> None:
    names = {"normal": (), "heart enlarged": ("cardiomegaly",), "effusion": ("effusion",), "nodule": ("mass",)}
    kinds = [["normal"], ["heart enlarged"], ["effusion"], ["heart enlarged", "effusion"], ["nodule"]]
    rows = []
    for i in range(42):
        held = kinds[i % 5]
        path = b.picture(f"{i % 3}/{900 + i}.png", chest_film(b.rng, *[sign for one in held for sign in names[one]])[0])
        text = str([(" " if i % 2 else "") + one for one in held + held[: i % 2]])
        rows.append((f"{900 + i}.png", f"p{i // 2}", b.pick("PA", "AP"), "['exclude']" if i in (3, 20) else text))
        if i in (3, 20):
            b.truth["left_out"].append({"file": path, "why": "marked exclude"})
        else:
            b.case(path, patient=f"p{i // 2}", label=held)
    rows.append(("2000.png", "p90", "PA", "['nodule']"))
    b.csv("labels.csv", ("image", "patient_id", "view", "labels"), rows)


@family(
    "reports_yaml",
    "report_generation",
    2,
    "write findings and impression for each film",
    notes="a YAML document a film, its texts folded over lines; who dictated it stands beside",
)
def reports_yaml(b: Build) -> None:
    for i in range(36):
        found = sick(b)
        findings, impression = words(found)
        findings += f" Compared with film {i // 2}."
        path = b.picture(f"films/P{i // 2:03d}_{i % 2 + 1}.png", chest_film(b.rng, *found)[0])
        said = f"report:\n  findings: >-\n    {findings}\n  impression: {impression}\n"
        b.text(f"reports/P{i // 2:03d}_{i % 2 + 1}.yaml", f"film: {i}\nreader: Dr. A\n{said}")
        b.case(path, patient=f"P{i // 2:03d}", text=f"{findings}\n\n{impression}")


@family(
    "shapes_in_cells",
    "anomaly_detection",
    2,
    "outline the lesions drawn in the annotation table",
    notes="VIA's CSV: polygons and attributes as JSON in cells, a row a region",
    patients_known=False,
    mask_tolerance=0.1,
)
def shapes_in_cells(b: Build) -> None:
    rows = []
    for i in range(30):
        image, mask = ultrasound(b.rng, b.pick("benign", "malignant"))
        path = b.picture(f"images/us{i:03d}.png", image)
        line = np.array(max(outline(mask), key=len))
        shape = {"name": "polygon", "all_points_x": line[:, 0].tolist(), "all_points_y": line[:, 1].tolist()}
        rows.append((f"us{i:03d}.png", 4000 + i, "{}", 1, 0, json.dumps(shape), json.dumps({"type": "lesion"})))
        b.case(path, mask={"lesion": mask})
    header = ("filename", "file_size", "file_attributes", "region_count", "region_id")
    b.csv("via_region_data.csv", (*header, "region_shape_attributes", "region_attributes"), rows)


@family(
    "outlines_beside",
    "organ_segmentation",
    2,
    "segment both lungs, drawn by our annotators",
    notes="Supervisely: a JSON a film in a parallel folder, named by the whole film's name; classes in meta.json",
    patients_known=False,
    mask_tolerance=0.1,
)
def outlines_beside(b: Build) -> None:
    b.json("project/meta.json", {"classes": [{"title": "left lung"}, {"title": "right lung"}], "tags": []})
    for i in range(28):
        image, masks = chest_film(b.rng)
        path = b.picture(f"project/ds/img/film_{i:03d}.png", image)
        kept = {name: masks[name] for name in ("left lung", "right lung")}
        objects = [
            {"classTitle": name, "geometryType": "polygon", "points": {"exterior": max(outline(one), key=len)}}
            for name, one in kept.items()
        ]
        size = {"height": image.shape[0], "width": image.shape[1]}
        b.json(f"project/ds/ann/film_{i:03d}.png.json", {"description": "", "size": size, "objects": objects})
        b.case(path, mask=kept)
