"""Words of people against words of files, and names for values in small files."""

import json
import shutil
from pathlib import Path

import pytest
from propose_files import mask_volume, picture, save_json, table, text, volume

from shared.contracts.rules import Rules
from shared.dataset.files.listing import list_files
from shared.dataset.propose import explain, propose
from shared.dataset.propose.legend import legends, naming
from shared.dataset.rules.resolve import resolve
from shared.dataset.tables.column_words import label_likeness, refused
from shared.dataset.tables.words import are_files, distinctive, meant, normal_in_two_ways, overlap, usual_spellings


@pytest.mark.parametrize(
    ("asked", "values", "found"),
    [
        ("left kidney", ("kidney_left", "kidney_right", "liver"), ("kidney_left",)),
        ("kidneys", ("left kidney", "right kidney", "liver"), ("left kidney", "right kidney")),
        ("Alzheimer's disease", ("AD", "CN", "MCI"), ("AD",)),
        ("mild cognitive impairment", ("AD", "CN", "MCI"), ("MCI",)),
        ("pleural effusion", ("Effusion", "Mass"), ("Effusion",)),
        ("brain tumour", ("tumor", "normal"), ("tumor",)),
        ("fracture", ("AD", "CN"), ()),
    ],
)
def test_words_mean_values(asked: str, values: tuple[str, ...], found: tuple[str, ...]) -> None:
    held, missing = meant((asked,), values)
    assert held == found and missing == (() if found else (asked,))


def test_words_that_all_values_have_tell_no_class() -> None:
    assert distinctive(["benign tumor", "malignant tumor"]) == ["benign", "malignant"]
    assert distinctive(["tumor", "no tumor"]) == ["tumor", "no tumor"], "one is nothing but that word"
    assert are_files(["COVID19-CT-01.zip", "COVID19-CT-02.zip"]) and not are_files(["grade 1.5", "grade 2.5"])
    assert not are_files(["normal", "a.zip"])


def test_names_of_archives_are_no_classes(tmp_path: Path) -> None:
    rows = []
    for number in range(24):
        label = ("NCP", "CP", "Normal")[number % 3]
        picture(tmp_path / label / f"{number}.png")
        rows.append({"zip_file": f"COVID19-CT-0{number // 3 % 4 + 1}.zip", "label": label, "scan_id": number})
    table(tmp_path / "unzip_filenames.csv", rows)
    found = propose(tmp_path, "diagnosis", target="covid-19 / pneumonia classification from CT")
    assert {one.coverage.label_names for one in found} == {("CP", "NCP", "Normal")}


def test_headers_of_classes_outrank_others() -> None:
    order = ["diagnosis", "tumor_type", "column_7", "scanner", "sex"]
    likely = [label_likeness(name) for name in order]
    assert likely == sorted(likely, reverse=True) and likely[0] > likely[-1]


@pytest.mark.parametrize(
    ("header", "values", "found"),
    [
        ("quality", ("good", "fair", "poor"), ("poor",)),
        ("image_quality", ("diagnostic", "non-diagnostic", "poor"), ("non-diagnostic",)),
        ("Exclude", ("0", "1"), ("1",)),
        ("isUsable", ("True", "False"), ("False",)),
        ("not_usable", ("0", "1"), ("1",)),
        ("QC", ("pass", "FAIL"), ("FAIL",)),
        ("QC_pass", ("1.0", "0.0"), ("0.0",)),
        ("exclusion_reason", ("motion", "wrong body part"), ("motion", "wrong body part")),
        ("status", ("included", "excluded"), ("excluded",)),
        ("Estado", ("Validado", "No valorable"), ("No valorable",)),
        ("Status", ("released", "pending"), ("pending",)),
        ("qc_t1w", ("pass", "fail"), ("fail",)),
        ("Bildqualität", ("gut", "schlecht"), ("schlecht",)),
        # These do not say so plainly.
        ("qc", ("0", "1"), ()),
        ("quality", ("1", "2", "3", "4"), ()),
        ("status", ("not excluded", "ok"), ()),
        ("tobacco_use", ("yes", "no"), ()),
        ("outcome", ("good", "poor"), ()),
        ("good", ("0", "1"), ()),
        ("remark", ("poor inspiration", "ok"), ()),
        ("is_valid", ("True", "False"), ()),
    ],
)
def test_columns_say_what_is_not_to_be_used(header: str, values: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert refused(header, values) == found


def test_names_of_values_are_read_from_any_small_file(tmp_path: Path) -> None:
    save_json(tmp_path / "dataset.json", {"labels": {"background": 0, "liver": 1, "tumor": 2}, "numTraining": 3})
    table(tmp_path / "labels.csv", [{"id": 5, "organ": "spleen"}, {"id": 9, "organ": "colon"}])
    text(tmp_path / "classes.txt", "dog\ncat\n")
    text(tmp_path / "ITK.txt", '0 0 0 0 0 0 0 "Clear Label"\n3 255 0 0 0.6 1 1 "edema"\n7 0 255 0 1 1 1 "core"\n')
    rows = (
        "Name | Colour | Value",
        "---|:--:|---",
        "black background | 0,0,0 | 50",
        "liver | 9,9,0 | 21",
        "fat | 1,9,0 | 12",
    )
    text(tmp_path / "README.md", "# Masks\n\n" + "\n".join(f"| {row} |" for row in rows))
    found = legends(list_files(tmp_path))
    for values, names in (
        ((1, 2), {1: "liver", 2: "tumor"}),
        ((5,), {5: "spleen", 9: "colon"}),
        ((0, 1), {0: "dog", 1: "cat"}),
        ((3, 7), {3: "edema", 7: "core"}),
        ((12, 21, 50), {21: "liver", 12: "fat"}),
    ):
        legend = naming(found, values)
        assert legend is not None and dict(legend.values) == names
    assert naming(found, (4, 77)) is None


@pytest.mark.parametrize(
    ("rare", "names"), [(5, ("structure 1", "structure 2", "structure 5")), (3, ("a1", "b2", "c3"))]
)
def test_a_list_of_names_is_counted_by_all_values_not_by_those_of_the_first_masks(
    tmp_path: Path, rare: int, names: tuple[str, ...]
) -> None:
    for number in range(16):
        volume(tmp_path / f"images/{number:02d}.nii.gz")
        mask_volume(tmp_path / f"masks/{number:02d}.nii.gz", (1, 2, rare) if number == 11 else (1, 2))
    save_json(tmp_path / "labels.json", ["a1", "b2", "c3"])
    assert propose(tmp_path, "organ_segmentation")[0].coverage.label_names == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Reference, 0 background, 1 left kidney, 2 cyst. Kept by us.", {1: "left kidney", 2: "cyst"}),
        ("Values (1: liver, 2: tumour of the liver) of\nthe masks.", {1: "liver", 2: "tumour of the liver"}),
        ("The mask has 1 for oedema and 2 for the core", {1: "oedema", 2: "core"}),
        ("There are 20 patients, 30 scans and 40 masks.", None),
        ("Of 3 readers, 1 liver, 2 lesion", {1: "liver", 2: "lesion"}),
        ("1 for glioma, 2 for oedema, 3 for core\nmasks: all", None),
    ],
)
def test_a_sentence_names_values(tmp_path: Path, text: str, names: dict[int, str] | None) -> None:
    (tmp_path / "README.md").write_text(f"# Scans\n\n{text}\n")
    read = legends(list_files(tmp_path))
    found = naming(read, (0, 1, 2) if "background" in text else (1, 2))
    assert (dict(found.values) if found else None) == names
    assert naming(read, (1,)) is None, "a binary mask is not what a sentence about two classes speaks of"


def test_what_a_legend_calls_background_is_no_structure_and_no_fault(tmp_path: Path) -> None:
    for number in range(8):
        volume(tmp_path / f"images/{number:02d}.nii.gz")
        mask_volume(tmp_path / f"masks/{number:02d}.nii.gz", (1, 2, 7))
    save_json(tmp_path / "labels.json", {"1": "liver", "2": "spleen", "7": "background"})
    best = propose(tmp_path, "organ_segmentation")[0]
    assert best.coverage.label_names == ("liver", "spleen")
    assert resolve(Rules.model_validate(best.rules), tmp_path).cases[0].masks[0].values == {
        "nonzero": 0,
        "1": 1,
        "2": 2,
    }


def test_normal_and_without_findings_are_one_class() -> None:
    values = {"Normal": 3, "normal": 9, "o.B.": 4, "gutartig": 5}
    assert normal_in_two_ways(values) == {"Normal": "normal", "normal": "normal", "o.B.": "normal"}
    for one_way in ({"normal": 3, "Normal": 2, "benign": 4}, {"none": 3, "mild": 4}, {"Normal": 3, "control": 9}):
        assert normal_in_two_ways(one_way) == {}


def test_a_class_is_one_in_all_ways_to_write_it() -> None:
    one = {"dry AMD": 9, "AMD (dry)": 8, "DME": 7, "diabetic macular oedema": 3, " Normal": 2, "normal": 5}
    assert set(usual_spellings(one).values()) == {"dry AMD", "DME", "normal"}
    # Numbers have an order, letters may stand for one of several, and `no` is no word to be passed over.
    apart = {"3+4": 5, "4+3": 4, "AC": 3, "acinar carcinoma": 2, "tumor": 4, "no tumor": 4}
    assert len(set(usual_spellings(apart).values())) == len(apart)
    several = {"CIN": 4, "chronic interstitial nephritis": 3, "crescentic iga nephropathy": 3}
    assert len(set(usual_spellings(several).values())) == 3


def test_a_word_may_be_made_of_others() -> None:
    assert overlap("are there metastases in this liver", "Lebermetastasen") == 1
    assert overlap("a liver with a tumour", "delivery") == 0


def test_folders_that_hold_images_are_no_classes(tmp_path: Path) -> None:
    for number in range(24):
        picture(tmp_path / ("img", "oct")[number % 2] / f"{number:03d}.png")
    assert not propose(tmp_path, "diagnosis", target="healthy, oedema or AMD in OCT")
    for number in range(24):
        picture(tmp_path / "films" / ("case", "control")[number % 2] / f"{number:03d}.png")
    shutil.rmtree(tmp_path / "img")
    shutil.rmtree(tmp_path / "oct")
    assert propose(tmp_path, "diagnosis")[0].coverage.counts == {"case": 12, "control": 12}


def test_a_letter_of_the_name_is_no_class_where_a_column_has_those_that_were_asked_for(tmp_path: Path) -> None:
    rows = []
    for number in range(24):
        picture(tmp_path / f"H-{number:03d}-{'AB'[number % 3 == 0]}.png")
        rows.append({"no key": f"x{number}", "histology": ("CIN 1", "CIN 2", "negative")[number % 3]})
    assert propose(tmp_path, "diagnosis")[0].rules["label"]["source"] == {"field": "label"}
    table(tmp_path / "register.csv", rows)
    assert not propose(tmp_path, "diagnosis", target="negative, CIN 1 or CIN 2")


def test_codes_of_a_column_are_named_by_a_line_of_the_table(tmp_path: Path) -> None:
    lines = ["Nr | Arzt | Bef. | Status"]
    for n in range(30):
        volume(tmp_path / f"ct/{n + 100}/scan.nii.gz")
        lines.append(f"{n + 100} | {('Lo', 'Be')[n % 7 // 4]} | {'NKEX'[n % 4]} | {('amb.', 'stat.')[n % 2]}")
    noted = "\n".join([*lines, "", "N = frei   K = Konsolidierung / Infiltrat   E = Erguss   X = nicht beurteilbar"])
    text(tmp_path / "Auswertung.txt", noted)
    best = propose(tmp_path, "diagnosis", target="free lung, consolidation or effusion")[0]
    label = Rules.model_validate(best.rules).label
    assert label is not None and label.source is not None and label.source.column == "Bef."
    assert label.classes == {"N": "frei", "K": "Konsolidierung / Infiltrat", "E": "Erguss", "X": None}
    assert legends(list_files(tmp_path))[0].codes.keys() == label.classes.keys()


def test_houses_are_no_classes_where_a_table_that_leads_to_no_image_has_those_that_are_asked_for(
    tmp_path: Path,
) -> None:
    for n in range(24):
        volume(tmp_path / f"{('HausA', 'HausB')[n % 2]}/{n + 100}/scan.nii.gz")
    asked = "Is the tumour grade II or grade IV?"
    assert propose(tmp_path, "diagnosis", target=asked)[0].rules["label"]["source"] == {"field": "label"}
    table(tmp_path / "Liste.csv", [{"Fall": f"F{n}-x", "WHO-Grad": ("II", "IV")[n % 3 // 2]} for n in range(24)])
    assert propose(tmp_path, "diagnosis", target=asked) == []
    assert "Column WHO-Grad of Liste.csv seems to have classes" in explain(tmp_path, "diagnosis")


def test_places_in_names_that_say_different_things_are_no_classes(tmp_path: Path) -> None:
    """A tile's class is its folder in one tree, in the other all lie in `tiles` and a table tells it."""
    rows = []
    for n in range(48):
        picture(tmp_path / f"scanner_1/{('LYM', 'MUC', 'TUM')[n % 3]}/C{n}-17-HE1 [x={n},y=3].png")
        picture(tmp_path / f"scanner_2/{('tiles', 'overview')[n % 4 == 3]}/C{n}HE2.jpg")
        rows.append({"tile": f"scanner_2/tiles/C{n}HE2.jpg", "tissue": ("lymphocytes", "mucus", "tumour")[n % 3]})
    table(tmp_path / "scanner_2/export.csv", rows)
    best = propose(tmp_path, "diagnosis", target="Tell for each of our tiles which tissue it shows.")[0]
    assert best.coverage.label_names == ("lymphocytes", "mucus", "tumour")


def test_stages_that_a_request_lists_are_those_of_a_column_for_each_side(tmp_path: Path) -> None:
    rows = []
    for n in range(40):
        for side in ("OD", "OS"):
            picture(tmp_path / f"{n + 100:05d}_{side}.png")
        rows.append(f"{n + 100},{n % 2 + 1},1.0,{n % 5},0.8,{n * 3 % 5}")
    head = ",,Rechtes Auge,,Linkes Auge,\nPat.-Nr.,Diabetes Typ,Visus,Befund,Visus,Befund"
    text(tmp_path / "Liste.csv", "\n".join([head, *rows]))
    best = propose(tmp_path, "diagnosis", target="das Stadium der diabetischen Retinopathie von 0 bis 4")[0]
    assert best.coverage.label_names == ("0", "1", "2", "3", "4") and best.coverage.cases == 80
    assert "Rechtes Auge Befund or Linkes Auge Befund" in best.says


def test_marks_are_of_the_picture_above_its_copies_and_a_second_visit_is_of_the_same_patient(tmp_path: Path) -> None:
    tasks = []
    for n in range(24):
        name = f"RIM_{n // 2 + 200}_{('01', 'V2_01')[n % 2]}.png"
        picture(tmp_path / "images" / name)
        if n % 4 == 0:
            picture(tmp_path / "images/with calipers" / name)
        value = {"points": [[10, 10], [60, 10], [60, 60]], "polygonlabels": ["Cyst"]}
        marks = [{"type": "polygonlabels", "original_width": 32, "original_height": 32, "value": value}]
        tasks.append({"data": {"image": f"/data/upload/7/ab12cd34-{name}"}, "annotations": [{"result": marks}]})
    text(tmp_path / "export.json", json.dumps(tasks))
    best = propose(tmp_path, "anomaly_detection", target="outline cysts")[0]
    assert (best.coverage.cases, best.coverage.patients, best.coverage.conflicts) == (24, 12, ())
