"""Reports and their images: the replicas in both layouts, and the other ways in which datasets keep their texts."""

import csv
import json
import zipfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from data_engineer_bench import Bench, End, brief, picture, table, truncate, volume

from m3bench.replicas import make
from shared.errors import UserError
from shared.trainkit.reports.texts import divided, joined, tidy, wanted_section

PLACES = ("left upper", "left middle", "left lower", "right upper", "right middle", "right lower")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def reports(bench: Bench, dimensions: int = 2, card: str = "images and reports", **plan: Any) -> End:
    given = brief(card=card, **{"task": "report_generation", "metric": "rouge_l", "dimensions": dimensions, **plan})
    end = bench.run(given)
    assert (end.tool, end.refused) == ("submit_dataset", [])
    return end


def said(number: int) -> tuple[str, str]:
    """Findings and impression of a case; no two cases of a test have the same."""
    place = PLACES[number % len(PLACES)]
    return f"An opacity of {number} mm is seen in the {place} zone.", f"Opacity, {place} zone, number {number}."


def replica(bench: Bench, name: str, **options: Any) -> dict[str, Any]:
    bench.data.rmdir()
    make(name, bench.data, size="tiny", seed=3, workers=1, **options)
    truth: dict[str, Any] = json.loads(bench.data.with_name("data.truth.json").read_text())
    return truth


def written(findings: str, impression: str) -> str:
    """The rule, told once more: both with their headings, what is missing is not there."""
    parts = {"Findings": findings, "Impression": impression}
    kept = {head: " ".join(text.split()) for head, text in parts.items() if text not in ("", "nan", "Not given.")}
    return " ".join(f"{head}: {text}" for head, text in kept.items())


def reasons(bench: Bench) -> dict[str, int]:
    """Count of what was left out, by the first word of the reason."""
    counts: dict[str, int] = defaultdict(int)
    for reason, count in bench.meta()["excluded_counts"].items():
        assert ":" in reason or ";" in reason, "a reason says what to do about it"
        counts[" ".join(reason.split()[:2]).strip(":")] += count
    return counts


@pytest.mark.parametrize("layout", ["paper", "distributed"])
def test_films_of_several_views_a_study(bench: Bench, layout: str) -> None:
    truth = replica(bench, "iu-xray", patients=60, layout=layout)
    end = reports(bench, card="chest X-ray report generation")
    name = "indiana_samples.csv" if layout == "paper" else "indiana_reports.csv"
    with (bench.data / name).open(newline="") as file:
        texts = {row["uid"]: written(row["findings"], row["impression"]) for row in csv.DictReader(file)}
    lost = {quirk["path"] for quirk in truth["quirks"] if quirk["quirk"] == "missing_file"}
    expected = {}
    for study in truth["studies"]:
        views = [file for file, _ in study["views"] if file not in lost]
        if study["empty"] != "both" and views:
            expected[str(study["uid"])] = (views, texts[str(study["uid"])])
    rows = {row["patient"]: ([Path(file).name for file in row["files"]], row["target"]) for row in bench.rows()}
    assert rows == expected, "frontal before lateral, then further ones; the texts of the table"
    counts = reasons(bench)
    assert counts["empty report"] == sum(study["empty"] == "both" for study in truth["studies"]) > 0
    assert counts["listed file"] == len(lost) == 1
    assert any("XXXX" in text for text in end.answer.handoff.oddities)
    assert any("XXXX" in row["target"] for row in bench.rows()), "marks of de-identification are kept"


@pytest.mark.parametrize("layout", ["paper", "distributed"])
def test_one_reconstruction_a_scan_and_the_datasets_own_split(bench: Bench, layout: str) -> None:
    truth = replica(bench, "ct-rate", patients=15, layout=layout)
    reports(bench, 3, "3D chest CT report generation")
    quirks = defaultdict(list)
    for quirk in truth["quirks"]:
        quirks[quirk["quirk"]].append(quirk["path"])
    unusable = {Path(path).name for kind in ("missing_file", "truncated_file") for path in quirks[kind]}
    expected = {}
    for scan in truth["scans"]:
        volumes = [name for n in range(scan["volumes"]) if (name := f"{scan['name']}_{n + 1}.nii.gz") not in unusable]
        if volumes:
            expected[scan["name"]] = (volumes[0], f"{scan['part']}_{scan['patient']}")
    rows = bench.rows()
    assert sorted(Path(row["files"][0]).name for row in rows) == sorted(volume for volume, _ in expected.values())
    whose = {Path(row["files"][0]).name: row["patient"] for row in rows}
    groups: dict[str, set[str]] = defaultdict(set)
    for first, patient in expected.values():
        groups[patient].add(whose[first])
    assert all(len(found) == 1 for found in groups.values()) and len(set.union(*groups.values())) == len(groups)
    assert all((row["split"] == "test") == ("valid_" in row["files"][0]) for row in rows)
    assert bench.meta()["split_from"] == "dataset"
    if layout == "paper":
        told = {
            record["image_path"]: written(record["finding"], record["impression"])
            for part in ("train", "test")
            for record in json.loads((bench.data / f"reports_{part}.json").read_text())
        }
    else:
        told = {}
        for path in sorted((bench.data / "dataset/radiology_text_reports").glob("*.csv")):
            with path.open(newline="") as file:
                for line in csv.DictReader(file):
                    told[line["VolumeName"]] = written(line["Findings_EN"], line["Impressions_EN"])
        assert {row["attributes"]["rescale_intercept"] for row in rows} == {0.0, -1024.0}
    key = str if layout == "paper" else (lambda file: Path(file).name)
    assert {row["files"][0]: row["target"] for row in rows} == {
        row["files"][0]: told[key(row["files"][0])] for row in rows
    }
    assert not any(word in row["target"] for row in rows for word in ("nan", "Not given"))


@pytest.mark.parametrize("layout", ["paper", "distributed"])
def test_sequences_with_a_text_each_and_a_split_that_tears_patients(bench: Bench, layout: str) -> None:
    truth = replica(bench, "braingenome", patients=30, layout=layout)
    reports(bench, 3, "3D head MRI report generation")
    rows = bench.rows()
    torn = [case["name"] for case in truth["cases"] if len(set(case["parts"])) > 1]
    again = [quirk["path"] for quirk in truth["quirks"] if quirk["quirk"] == "two_time_points"]
    both = {case["patient"] for case in truth["cases"] if case["name"] in (*torn, *again)}
    # Of the two patients in train and test only what is in test stays.
    expected = {
        part: sum(
            len([one for one in case["parts"] if (one == "test") == (part == "test")])
            for case in truth["cases"]
            if part == "test" or case["patient"] not in both
        )
        for part in ("train", "test")
    }
    assert Counter("test" if row["split"] == "test" else "train" for row in rows) == expected
    assert bench.meta()["split_from"] == "dataset" and reasons(bench)["image of"] > 0
    assert all(len(row["files"]) == 1 for row in rows) and len({row["target"] for row in rows}) > 0.8 * len(rows)
    assert all(row["target"].startswith("Findings: ") and " Impression: " in row["target"] for row in rows)
    assert not any(name.endswith(("seg.nii.gz", "msk.nii.gz", "wmh.nii.gz")) for row in rows for name in row["files"])
    sides = {row["patient"]: row["split"] for row in rows}
    assert all(sides[row["patient"]] == row["split"] for row in rows)
    wanted = {case["patient"] for case in truth["cases"]}
    assert len(sides) == len(wanted), "both time points are one patient"
    if layout == "distributed":
        modal = {
            name: text
            for path in sorted(bench.data.glob("*/modal_wise_finding.json"))
            for name, text in json.loads(path.read_text()).items()
        }
        found = {row["target"].removeprefix("Findings: ").split(" Impression: ")[0] for row in rows}
        assert found <= set(modal.values()), "an image's own text, not that of its whole case"


def test_a_list_of_cases_with_several_images_and_its_split(bench: Bench) -> None:
    """One JSON object with a list for each part; a case is a folder, a report one text."""
    parts: dict[str, list[dict[str, Any]]] = {"train": [], "val": [], "test": []}
    for number in range(14):
        case = f"CXR{number}_IM-{number + 700:04}"
        for view in range(2):
            picture(bench.data / f"images/{case}/{view}.png")
        part = "train" if number < 8 else "val" if number < 11 else "test"
        images = [f"{case}/0.png", f"{case}/1.png"]
        parts[part].append({"id": case, "report": " ".join(said(number)), "image_path": images, "split": part})
    (bench.data / "annotation.json").write_text(json.dumps(parts))
    reports(bench)
    rows = bench.rows()
    assert len(rows) == 14 and Counter(row["split"] for row in rows) == {"train": 8, "val": 3, "test": 3}
    assert all([Path(name).name for name in row["files"]] == ["0.png", "1.png"] for row in rows)
    assert {row["target"] for row in rows} == {" ".join(said(number)) for number in range(14)}, "no headings"


def test_an_xml_file_a_study_names_its_images(bench: Bench) -> None:
    for number in range(1, 13):
        findings, impression = said(number)
        images = [f"CXR{number}_{number}_IM-0001-{view}001" for view in (3, 4)]
        for image in images:
            picture(bench.data / f"png/{image}.png")
        texts = {"COMPARISON": "None.", "INDICATION": "Cough and fever since three days.", "IMPRESSION": impression}
        texts["FINDINGS"] = "" if number == 3 else findings
        body = "".join(f'<AbstractText Label="{label}">{text}</AbstractText>' for label, text in texts.items())
        shown = "".join(f'<parentImage id="{image}"><caption>Chest film</caption></parentImage>' for image in images)
        path = bench.data / f"ecgen-radiology/{number}.xml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'<eCitation><uId id="CXR{number}"/><Abstract>{body}</Abstract>{shown}</eCitation>')
    reports(bench)
    rows = {row["files"][0]: row for row in bench.rows()}
    assert len(rows) == 12 and all(len(row["files"]) == 2 for row in rows.values())
    assert rows["png/CXR5_5_IM-0001-3001.png"]["target"] == written(*said(5))
    assert rows["png/CXR3_3_IM-0001-3001.png"]["target"] == written("", said(3)[1])


def test_text_files_with_headings_beside_the_images(bench: Bench) -> None:
    """The parts that an image can show are taken; what led to the examination is not."""
    people = [{"study": f"s{number}", "subject_id": f"p{number // 2}"} for number in range(16)]
    for number in range(16):
        findings, impression = said(number)
        path = bench.data / f"files/p{number // 2}/s{number}"
        picture(path / "view1_lateral.jpg")
        picture(path / "view2_frontal.jpg")
        head = "FINAL REPORT\n EXAMINATION: Chest films.\n INDICATION: ___-year-old with cough.\n\n"
        path.with_suffix(".txt").write_text(f"{head} FINDINGS:\n\n {findings}\n\n IMPRESSION: {impression}\n")
    (bench.data / "README.txt").write_text("Two films of each study, with the report of the radiologist beside them.")
    table(bench.data / "studies.csv", people)
    reports(bench)
    rows = bench.rows()
    assert len(rows) == 16 and {row["patient"] for row in rows} == {f"p{number}" for number in range(8)}
    assert bench.meta()["grouping"] == "stated"
    by_study = {row["files"][0].split("/")[2]: row for row in rows}
    assert by_study["s7"]["target"] == written(*said(7))
    assert [Path(name).name for name in by_study["s7"]["files"]] == ["view2_frontal.jpg", "view1_lateral.jpg"]


def test_a_workbook_a_mapping_and_a_text_in_each_folder(bench: Bench) -> None:
    """Three forms of the same content."""
    for number in range(10):
        volume(bench.data / f"scans/case{number:02}/scan.nii.gz")
    names = [f"case{number:02}" for number in range(10)]
    workbook(bench.data / "list.xlsx", [["Case", "Impression"], *([name, said(n)[1]] for n, name in enumerate(names))])
    reports(bench, 3)
    expected = {f"scans/{name}/scan.nii.gz": said(number)[1] for number, name in enumerate(names)}
    assert {row["files"][0]: row["target"] for row in bench.rows()} == expected, "the one part there is, alone"
    (bench.data / "list.xlsx").unlink()
    (bench.data / "reports.json").write_text(json.dumps({name: said(n)[1] for n, name in enumerate(names)}))
    reports(bench, 3)
    assert {row["files"][0]: row["target"] for row in bench.rows()} == expected
    (bench.data / "reports.json").unlink()
    for number, name in enumerate(names):
        (bench.data / "scans" / name / "report.txt").write_text(said(number)[1])
    reports(bench, 3)
    assert {row["files"][0]: row["target"] for row in bench.rows()} == expected


def test_slices_of_a_scan_and_the_longest_of_its_series(bench: Bench) -> None:
    records = []
    for number in range(8):
        for series, slices in (("scout", 2), ("axial", 10)):
            for slice_ in range(slices):
                picture(bench.data / f"CT{number:03}/{series}/{slice_}.png")
        records.append({"exam": f"CT{number:03}", "Findings": said(number)[0]})
    truncate(bench.data / "CT003/axial/4.png")
    table(bench.data / "texts.csv", records)
    reports(bench, 3)
    rows = {row["files"][0].split("/")[0]: row["files"] for row in bench.rows()}
    assert {len(files) for name, files in rows.items() if name != "CT003"} == {10} and len(rows["CT003"]) == 9
    assert [Path(name).stem for name in rows["CT000"]] == [str(number) for number in range(10)]
    assert reasons(bench)["further series"] == 8 and reasons(bench)["unreadable file"] == 1


def test_texts_that_say_nothing_are_left_out_with_a_reason_and_copies_that_differ_too(bench: Bench) -> None:
    nothing = ["", "nan", "Not given.", "N/A", "XXXX", "...", "Normal.", "x" * 3]
    records = [{"image": f"{number:02}.png", "report": said(number)[0]} for number in range(10)]
    records += [{"image": f"{number + 10:02}.png", "report": text} for number, text in enumerate(nothing)]
    records += [{"image": "90.png", "report": said(90)[0]}, {"image": "91.png", "report": said(91)[0]}]
    for record in records:
        picture(bench.data / "films" / record["image"])
    (bench.data / "films/91.png").write_bytes((bench.data / "films/90.png").read_bytes())
    picture(bench.data / "films/unknown.png")
    table(bench.data / "reports.csv", [*records, {"image": "gone.png", "report": said(80)[0]}])
    reports(bench)
    assert len(bench.rows()) == 10
    counts = reasons(bench)
    assert (counts["empty report"], counts["report of"], counts["image without"]) == (7, 1, 1)
    assert counts["copies with"] == 2 and counts["listed file"] == 1
    assert bench.meta()["grouping"] == "inferred"


def test_only_the_part_that_is_asked_for_where_there_is_one(bench: Bench) -> None:
    records = [{"image": f"{n:02}.png", "findings": said(n)[0], "impression": said(n)[1]} for n in range(8)]
    for record in records:
        picture(bench.data / record["image"])
    table(bench.data / "reports.csv", [*records[:7], {**records[7], "findings": "nan"}])
    asked = brief(task="report_generation", metric="rouge_l", card="images and reports")
    only = asked.model_copy(update={"requested": asked.requested.model_copy(
        update={"requirement": "Write the findings section of a radiology report."})})  # fmt: skip
    bench.run(only)
    assert {row["target"] for row in bench.rows()} == {said(n)[0] for n in range(7)}, "without a heading"
    table(bench.data / "reports.csv", [{"image": record["image"], "report": record["findings"]} for record in records])
    end = bench.run(only)
    assert len(bench.rows()) == 8 and any("no report of the dataset" in text for text in end.answer.warnings)


def test_which_part_a_request_names_and_what_a_report_divides_into() -> None:
    assert wanted_section("Write the findings section of a radiology report from chest radiographs.") == "findings"
    assert wanted_section("Findings generation from volumetric chest CT, measured with BLEU") == "findings"
    assert wanted_section("only the impression, please") == "impression"
    for whole in (
        "Draft reports, findings first and then an impression.",
        "generate findings and impression",
        "reports",
    ):
        assert wanted_section(whole) is None
    assert joined({"findings": "a b", "impression": "c d"}, "findings", True) == "a b"
    assert divided("HISTORY: old. FINDINGS: Clear lungs.\nIMPRESSION: Normal.") == {
        "findings": "Clear lungs.", "impression": "Normal.",
    }  # fmt: skip
    assert divided("Ratio of 3:2, nothing else.") == {"report": "Ratio of 3:2, nothing else."}
    assert tidy("No findings.") == "No findings." and tidy(" Not  available. ") == "" == tidy("\x00nan ")


def test_work_that_is_handed_back(bench: Bench) -> None:
    """Samples are left out with everything else where it was; patients who show the same image come together."""
    records = [{"image": f"{n:02}.png", "report": said(n)[0]} for n in range(20)]
    for record in records:
        picture(bench.data / record["image"])
    table(bench.data / "reports.csv", records)
    reports(bench)
    before = {row["sample_id"]: row["split"] for row in bench.rows()}
    gone = next(name for name, split in before.items() if split == "train")
    options = {"task": "report_generation", "metric": "rouge_l", "card": "images and reports"}
    bench.run(brief(returned={"samples": {gone: "holds NaN"}}, **options))
    after = {row["sample_id"]: row["split"] for row in bench.rows()}
    assert after == {name: split for name, split in before.items() if name != gone}
    one, other = (next(name for name, split in after.items() if split == side) for side in ("train", "test"))
    bench.run(brief(returned={"merge": [[one, other]]}, **options))
    again = {row["sample_id"]: row for row in bench.rows()}
    assert again[one]["split"] == again[other]["split"] and again.keys() == after.keys()
    assert all(row["target"] in {said(n)[0] for n in range(20)} for row in again.values())


def test_data_without_reports_end_in_a_claim_that_holds(bench: Bench) -> None:
    given = brief(task="report_generation", metric="rouge_l", card="images and reports")
    for number in range(6):
        picture(bench.data / f"films/{number:02}.png")
    table(bench.data / "list.csv", [{"image": f"{number:02}.png", "age": 40 + number % 3} for number in range(6)])
    end = bench.run(given)
    assert (end.tool, end.answer.claim, end.refused) == ("declare_infeasible", "no_labels", [])
    # The same claim of data that do have texts is refused.
    table(bench.data / "texts.csv", [{"who": f"x{number}", "report": said(number)[0]} for number in range(6)])
    facts = bench.probe("verify_infeasible.py", "--claim", "no_labels", "--task", "report_generation",
                        "--accounts", "accounts.json")  # fmt: skip
    assert not facts["holds"] and any("report" in error for error in facts["errors"])
    with pytest.raises(UserError, match=r"6 reports, and none that can be used belongs to an image.*'x0'"):
        bench.run(given)


def test_one_patient_and_one_text_for_all(bench: Bench) -> None:
    given = brief(task="report_generation", metric="rouge_l", card="images and reports")
    records = [{"image": f"a{n}.png", "patient_id": "p1", "report": said(n)[0]} for n in range(6)]
    for record in records:
        picture(bench.data / record["image"])
    table(bench.data / "reports.csv", records)
    end = bench.run(given)
    assert (end.tool, end.answer.claim, end.refused) == ("declare_infeasible", "one_patient", [])
    table(bench.data / "reports.csv", [{**record, "patient_id": f"p{n}", "report": "The lungs are clear."}
                                       for n, record in enumerate(records)])  # fmt: skip
    with pytest.raises(UserError, match="one and the same report"):
        bench.run(given)


def workbook(path: Path, rows: list[list[str]]) -> None:
    """The least that is a workbook: one sheet, its texts in the table of shared strings."""
    strings = [cell for row in rows for cell in row]
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    number = iter(range(len(strings)))
    lines = "".join(
        f'<row r="{line}">' + "".join(
            f'<c r="{chr(65 + place)}{line}" t="s"><v>{next(number)}</v></c>' for place in range(len(row))
        ) + "</row>"
        for line, row in enumerate(rows, 1)
    )  # fmt: skip
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("xl/worksheets/sheet1.xml", f"<worksheet {space}><sheetData>{lines}</sheetData></worksheet>")
        items = "".join(f"<si><t>{text}</t></si>" for text in strings)
        book.writestr("xl/sharedStrings.xml", f"<sst {space}>{items}</sst>")
