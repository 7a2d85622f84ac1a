"""Make the index of this dataset: one row a case with its mask, split by patient. Run it in the workspace.

The decisions stand in DECISIONS; everything below them is general.
"""

from typing import Any

from shared.trainkit.collect import Collection
from shared.trainkit.labelnames import names_in_text
from shared.trainkit.segments import (
    check_pairs,
    end_if_hopeless,
    find_pairs,
    make_rows,
    meta_of,
    name_structures,
    oddities,
    split_rows,
)

DECISIONS: dict[str, Any] = {}


def main() -> None:
    found = Collection()
    tables, dimensions, card = DECISIONS["tables"], DECISIONS["dimensions"], DECISIONS["card"]
    pairing = find_pairs(found, tables, dimensions, card)
    sound = check_pairs(found, pairing.pairs, dimensions)
    rows, grouping, says = make_rows(found, pairing, sound, tables)
    values = {row["sample_id"]: row["values"] for row in rows}
    end_if_hopeless(found, pairing, rows, values)
    rows = found.drop_copies(rows)
    try:
        rows, split_from = split_rows(found, rows, DECISIONS["seed"], DECISIONS["max_train"], DECISIONS["max_test"])
    except ValueError as error:
        found.cannot(f"the cases cannot be split: {error}.")
    named = name_structures(found, [values[row["sample_id"]] for row in rows], tables, names_in_text(card))
    found.oddities += oddities(found, rows, values, named)
    if DECISIONS["labels"]:
        wanted, have = ", ".join(DECISIONS["labels"]), len(named.label_values)
        found.warnings.append(f"asked for: {wanted}. Masks are taken as they are, with all their {have} structures")
    if grouping == "inferred":
        found.warnings.append(f"patients are inferred: {says}")
    meta = meta_of(
        named,
        task=DECISIONS["task"],
        dimensions=dimensions,
        grouping=grouping,
        grouping_from=says,
        split_from=split_from,
        seed=DECISIONS["seed"],
    )
    layout = f"a sample is an image with its mask; {pairing.says}; structures from {named.says}; patients: {says}"
    found.write(rows, meta, layout, len(pairing.pairs))


if __name__ == "__main__":
    main()
