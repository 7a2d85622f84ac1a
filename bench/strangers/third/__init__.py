"""24 further datasets that nobody tuned for: FAMILIES maps names to Family; make(folder, truth, seed) writes one.

Truth as in `second`: `files` names the entry files of a case, volumes of slices in anatomical order (upwards). Colour
pictures count as COLOUR channels. `left_out` names pictures that look like cases and are none.
"""

from bench.strangers.third import films, masks, reports, volumes

FAMILIES = films.FAMILIES | volumes.FAMILIES | masks.FAMILIES | reports.FAMILIES
