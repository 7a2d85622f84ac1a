"""Two machines name their series in their own words, with a scout beside each scan: nothing is to be chosen."""

from pathlib import Path

from propose_files import dicom_series, save_json

from shared.dataset.propose import propose

SERIES = ({"1_Topogram": "Topogram", "4_Thorax": "Thorax 1.0"}, {"SE001": "SCOUT", "SE003": "LUNG HR"})


def test_all_scans_are_taken_and_what_nobody_could_tell_is_no_class(tmp_path: Path) -> None:
    rows = []
    for number in range(24):
        study = tmp_path / f"DICOM/P{number:03}/2020{number:04}"
        for folder, said in SERIES[number % 3 == 0].items():
            scout = said in ("Topogram", "SCOUT")
            for one in dicom_series(study / folder, f"P{number:03}", 1 if scout else 6):
                one.SeriesDescription, one.ImageType = said, ["ORIGINAL", "PRIMARY", "LOCALIZER" if scout else "AXIAL"]
                one.save_as(study / folder / f"{one.InstanceNumber:03}.dcm", enforce_file_format=True)
        rows.append({"study_id": f"P{number:03}", "diagnosis": ("UIP", "NSIP", "No ILD")[number // 2 % 3]})
        if number < 4:
            rows[-1]["diagnosis"] = "Unclassifiable - not for evaluation"
    save_json(tmp_path / "data.json", rows)
    best = propose(tmp_path, "diagnosis", target="UIP, NSIP or no ILD")[0]
    assert best.coverage.cases == 20 and best.coverage.counts.keys() == {"UIP", "NSIP", "No ILD"}
