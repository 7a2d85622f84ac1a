"""16 further datasets as hospitals and public sets lay them out, written before the search saw them; see `third`."""

from bench.strangers.fifth import boxes, doubts, films, masks, reports, volumes

FAMILIES = (
    films.FAMILIES | volumes.FAMILIES | masks.FAMILIES | boxes.FAMILIES | reports.FAMILIES | doubts.FAMILIES
)
