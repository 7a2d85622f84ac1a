"""24 datasets that nobody tuned for: FAMILIES maps names to Family; make(folder, truth, seed) writes one.

Truth: `files` names the entry files of a case (for Analyze pairs the .hdr); volumes of slices list them in anatomical
order. Colour pictures count as COLOUR channels. `left_out` names pictures that look like cases and are none (no label,
copies, derived files, other reconstructions). Masks count voxels over 0 on the mask's own grid, which is the image's.
"""

from bench.strangers.second import films, masks, reports, volumes

FAMILIES = films.FAMILIES | volumes.FAMILIES | masks.FAMILIES | reports.FAMILIES
