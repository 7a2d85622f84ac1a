"""The whole of a dataset in memory, from one listing and bounded looks: what the profile and the search for rules see.

survey(root) -> Survey
Survey.families      files that look alike: pattern with fields, members, kind, headers and pixels of a few
Survey.images        of them the image families, which are no masks
Survey.tables        parsed tables with the column that names images, and how
Survey.patients, .labels, .splits, .texts    `Evidence`, best first; each gives its value of any image file
Survey.masks         mask families (or annotation files) with the image families they belong to
"""

from dataclasses import dataclass, field
from pathlib import Path

from shared.dataset.files.listing import Listing, list_files
from shared.dataset.files.looking import Looker
from shared.dataset.survey.candidates import best_of, label_evidence, split_evidence
from shared.dataset.survey.derived import set_aside
from shared.dataset.survey.evidence import Evidence, Units
from shared.dataset.survey.family import Family, families_of
from shared.dataset.survey.inner_looks import inner_evidence
from shared.dataset.survey.joins import TableLook, join_tables
from shared.dataset.survey.mask_looks import MaskLook, masks_of
from shared.dataset.survey.people import patient_evidence
from shared.dataset.survey.texts import text_evidence

BUDGET = 60.0
"""Seconds for all looks into files."""


@dataclass
class Survey:
    root: Path
    listing: Listing
    families: list[Family]
    """Largest first; together they hold every file of the listing once."""
    tables: list[TableLook]
    units: Units
    """Image files, or folders of slices, of all image families: all of them or an even sample."""
    patients: list[Evidence]
    labels: list[Evidence]
    splits: list[Evidence]
    texts: list[Evidence]
    masks: list[MaskLook]
    looker: Looker
    skipped: list[str] = field(default_factory=list)
    """What was not looked at, and why."""

    @property
    def images(self) -> list[Family]:
        return [one for one in self.families if one.role == "image"]


def survey(root: Path | str, budget: float = BUDGET, listing: Listing | None = None) -> Survey:
    """Looks at `root`, `budget` seconds at most into files. Raises NotADirectoryError if it is no folder."""
    root = Path(root)
    listing = listing or list_files(root)
    looker = Looker(root, budget)
    skipped: list[str] = []
    families = families_of(listing, looker)
    set_aside(families, looker)
    images = [one for one in families if one.role == "image"]
    units = Units(images)
    tables = join_tables(root, families, units, skipped, looker)
    inner = inner_evidence(images, root, looker)
    splits = best_of([*inner["splits"], *split_evidence(units, tables)])
    labels = best_of([*inner["labels"], *label_evidence(units, tables, splits)])
    return Survey(
        root=root,
        listing=listing,
        families=families,
        tables=tables,
        units=units,
        patients=best_of([*inner["patients"], *patient_evidence(units, tables, labels, splits)]),
        labels=labels,
        splits=splits,
        texts=best_of([*inner["texts"], *text_evidence(units, tables)]),
        masks=masks_of(families, tables, units, root, looker),
        looker=looker,
        skipped=skipped + _not_seen(listing, looker, units),
    )


def _not_seen(listing: Listing, looker: Looker, units: Units) -> list[str]:
    said = [f"{count:,} x {reason}" for reason, count in listing.skipped.items()]
    if looker.late:
        said.append(f"{looker.late:,} more files were to be looked into: the time for it was up")
    if units.total > len(units.files):
        said.append(f"names of {len(units.files):,} of {units.total:,} images, evenly drawn, were joined to tables")
    return said
