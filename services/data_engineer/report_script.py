"""Make the index of this dataset: one row a case with its report, split by patient. Run it in the workspace.

The decisions stand in DECISIONS; everything below them is general.
"""

from typing import Any

from shared.trainkit.collect import Collection
from shared.trainkit.index import Row
from shared.trainkit.listings import DANGLING
from shared.trainkit.reports.columns import sections_of
from shared.trainkit.reports.joining import Joined, join
from shared.trainkit.reports.naming import Names
from shared.trainkit.reports.rows import NO_IMAGE, make_units, rows_of, usable
from shared.trainkit.reports.sides import drop_copies, oddities, split_rows
from shared.trainkit.reports.tables import read_tables

DECISIONS: dict[str, Any] = {}


def end_if_hopeless(found: Collection, told: Joined, rows: list[Row]) -> None:
    """Nothing to write about, one report for all, or one patient: no index can be made, and here is why."""
    if not rows and not found.files:
        found.end_without_rows("")
    if not rows and not told.reports:
        found.open_all(found.files)
        if len(found.unreadable) < len(found.files):
            found.cannot("nothing in the dataset holds reports: no table and no text file has texts", "no_labels")
    if not rows:
        some = f", such as {told.without[0]!r}" if told.without else ""
        found.end_without_rows(
            f"the dataset has {told.reports} reports, and none that can be used belongs to an image by a path, a name, "
            f"a folder or a shared key{some}"
        )
    if len({row["patient"] for row in rows}) == 1:
        found.cannot(f"all {len(rows)} samples belong to the one patient {rows[0]['patient']!r}", "one_patient", rows)
    if len({row["target"] for row in rows}) == 1:
        found.cannot(f"all {len(rows)} samples have one and the same report: there is nothing to learn from it")


def main() -> None:
    found = Collection()
    if not found.files:
        found.end_without_rows("")
    files = usable(found, DECISIONS["dimensions"])
    tables = read_tables(found.data)
    told = join(tables, sections_of(tables, DECISIONS["card"]), Names(files))
    found.excluded[NO_IMAGE] += told.without
    found.excluded[DANGLING] += sorted(told.missing)
    units = make_units(found, told, files, DECISIONS["dimensions"], DECISIONS["section"])
    rows, grouping, says = rows_of(units, told.images, told.patients_from)
    end_if_hopeless(found, told, rows)
    listed = len(rows)
    rows = drop_copies(found, rows)
    try:
        rows, split_from = split_rows(
            found, rows, seed=DECISIONS["seed"], max_train=DECISIONS["max_train"], max_test=DECISIONS["max_test"]
        )
    except ValueError as error:
        found.cannot(f"the samples cannot be split: {error}.")
    found.oddities += oddities(rows)
    if grouping == "inferred":
        found.warnings.append(f"patients are inferred: {says}")
    if DECISIONS["section"]:
        found.oddities.append(f"the request asks for the {DECISIONS['section']} of a report")
    meta = {
        "task": "report_generation",
        "dimensions": DECISIONS["dimensions"],
        "label_names": [],
        "grouping": grouping,
        "grouping_from": says,
        "split_from": split_from,
        "seed": DECISIONS["seed"],
    }
    found.write(rows, meta, f"a sample is what one report is about; {told.says}; patients: {says}", listed)


if __name__ == "__main__":
    main()
