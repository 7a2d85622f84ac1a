"""Exports of study databases: check boxes, states of forms, uploads named by record, visit and column."""

import csv
from pathlib import Path

from propose_files import picture, table

from shared.contracts.cases import Proposal
from shared.contracts.rules import Rules
from shared.dataset.propose import propose
from shared.dataset.rules.resolve import resolve


def told(root: Path, best: Proposal) -> dict[str, object]:
    return {case.key: case.label for case in resolve(Rules.model_validate(best.rules), root).cases}


def dictionary(root: Path, *fields: tuple[str, str, str, str]) -> None:
    names = ("Variable / Field Name", "Form Name", "Field Label", "Choices, Calculations, OR Slider Labels")
    table(root / "Felder.csv", [dict(zip(names, one, strict=True)) for one in fields])


def test_a_picture_has_the_row_of_its_record_and_visit(tmp_path: Path) -> None:
    """Scans of consents lie beside the pictures, in another form; records hold hyphens, visits several words."""
    rows, truth, people = [], {}, set()
    for number in range(40):
        record = f"{1 + number % 3}-{1 + number // 3}"
        for turn, event in enumerate(["screening_arm_1", "woche_6_arm_1", "jahr_1_arm_1"][: 1 + number % 3]):
            state = 1 if (number + turn) % 9 == 4 else 2
            code = 99 if (number + turn) % 13 == 0 else (number + 2 * turn) % 3 + 1
            rows.append({"studien_nr": record, "redcap_event_name": event, "sex": "" if turn else 1 + number % 2,
                         "einwilligung": "" if turn else "scan.png", "stammdaten_complete": "" if turn else 2,
                         "foto": f"IMG_{number:04}.png", "zustand": code, "foto_complete": state})  # fmt: skip
            name = f"documents/{record}_{event}_foto.png"
            picture(tmp_path / name)
            if not turn:
                picture(tmp_path / f"documents/{record}_{event}_einwilligung.png", (30, 40))
            if state == 2 and code != 99:
                truth[name] = ("granulierend", "belegt", "nekrotisch")[code - 1]
                people.add(record)
    table(tmp_path / "Projekt_DATA.csv", rows)
    dictionary(tmp_path, ("studien_nr", "stammdaten", "Nummer", ""), ("foto", "foto", "Bild der Wunde", ""),
               ("sex", "stammdaten", "Geschlecht", "1, m | 2, w"), ("einwilligung", "stammdaten", "Scan", ""),
               ("zustand", "foto", "Zustand", "1, granulierend | 2, belegt | 3, nekrotisch | 99, nicht beurteilbar"),
               )  # fmt: skip
    best = propose(tmp_path, "diagnosis", target="den Zustand einer Wunde erkennen")[0]
    assert told(tmp_path, best) == truth and best.coverage.patients == len(people) and not best.key


def test_check_boxes_are_called_as_a_dictionary_calls_their_answers(tmp_path: Path) -> None:
    """A project without visits; a box says that nothing can be told, and a draft has no box ticked."""
    rows, truth = [], {}
    names = ("Haemorrhages", "Exudates", "Neovascularisation")
    for number in range(1, 61):
        state, unfit = (2, 2, 2, 1, 0)[number % 5], number % 17 == 3
        ticked = [int(state > 0 and not unfit and (number + at) % (at + 2) == 0) for at in range(3)]
        rows.append({"record_id": number, "smoker": number % 2, "insulin": number % 3 % 2, "base_complete": 2,
                     **{f"signs___{at + 1}": one for at, one in enumerate(ticked)},
                     "signs____9": int(unfit), "note": "", "reading_complete": state})  # fmt: skip
        picture(tmp_path / f"files/{number}_fundus.jpg")
        if state == 2 and not unfit:
            truth[f"files/{number}_fundus.jpg"] = tuple(
                sorted(name for name, one in zip(names, ticked, strict=True) if one)
            )
    table(tmp_path / "export.csv", rows)
    codes = " | ".join([*(f"{at}, {name}" for at, name in enumerate(names, 1)), "-9, Ungradable"])
    dictionary(tmp_path, ("record_id", "base", "Record ID", ""), ("smoker", "base", "Smoker?", ""),
               ("insulin", "base", "Insulin?", ""), ("signs", "reading", "Signs of retinopathy", codes))  # fmt: skip
    best = propose(tmp_path, "diagnosis", target="which signs of retinopathy a photograph shows, or none")[0]
    assert told(tmp_path, best) == truth and not best.key
    assert () in truth.values() and best.coverage.label_names == tuple(sorted(names))


def test_boxes_of_an_export_with_labels(tmp_path: Path) -> None:
    """Headers hold question and answer; headers of two forms are the same; visits are written with blanks."""
    answers = ("Consolidation", "Effusion", "Pneumothorax", "Unable to assess")
    rows: list[list[object]] = [["Study ID", "Event Name", "Sex", "Complete?", "X-ray",
                                 *(f"Findings (choice={answer})" for answer in answers), "Complete?"]]  # fmt: skip
    truth = {}
    for number in range(1, 41):
        for turn, event in enumerate(["Baseline", "Day 3"][: 1 + number % 2]):
            state, unfit = ("Complete", "Complete", "Incomplete")[(number + turn) % 3], (number + turn) % 11 == 5
            ticked = [not unfit and state == "Complete" and (number + turn) % (at + 2) == 0 for at in range(3)]
            boxes = ["Checked" if one else "Unchecked" for one in (*ticked, unfit)]
            rows.append([f"H{number:03}", event, "" if turn else "F", "" if turn else "Complete", "[document]",
                         *boxes, state])  # fmt: skip
            name = f"documents/H{number:03}_{event.lower().replace(' ', '_')}_arm_1_cxr.png"
            picture(tmp_path / name)
            if state == "Complete" and not unfit:
                truth[name] = tuple(answer for answer, one in zip(answers, ticked, strict=False) if one)
    with (tmp_path / "labels.csv").open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows(rows)
    best = propose(tmp_path, "diagnosis", target="consolidation, effusion and pneumothorax on chest X-rays")[0]
    assert told(tmp_path, best) == truth and not best.key
    assert best.coverage.patients == len({name[10:14] for name in truth})


def test_what_was_asked_at_the_first_visit_counts_for_all_and_no_visit_is_a_class(tmp_path: Path) -> None:
    rows, truth = [], {}
    for number in range(100, 140):
        for turn, event in enumerate(["baseline_arm_1", "month_12_arm_1"][: 1 + number % 2]):
            rows.append({"record_id": number, "redcap_event_name": event, "dx": "" if turn else number % 3 + 1,
                         "diagnosis_complete": "" if turn else 2 * (number % 10 > 0)})  # fmt: skip
            name = f"slices/{number}_{event}_slice.png"
            picture(tmp_path / name)
            if number % 10:
                truth[name] = ("Alzheimer", "FTD", "healthy")[number % 3]
    table(tmp_path / "DATA.csv", rows)
    dictionary(tmp_path, ("record_id", "diagnosis", "Record ID", ""), ("redcap_event_name", "", "Event", ""),
               ("dx", "diagnosis", "Diagnosis", "1, Alzheimer | 2, FTD | 3, healthy"))  # fmt: skip
    found = propose(tmp_path, "diagnosis", target="tell Alzheimer, FTD and healthy people apart")
    assert told(tmp_path, found[0]) == truth and found[0].coverage.patients == 36
    assert all("baseline" not in one.coverage.counts for one in found)
