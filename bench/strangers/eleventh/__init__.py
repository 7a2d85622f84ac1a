"""Eight layouts by two people who had not seen the code, with a card each as a physician would write it."""

from bench.strangers.eleventh import (
    chest_reports,
    dementia_pet,
    eye_clinic,
    liver_ct,
    skin_or_cells,
    spine_mr,
    thyroid,
    wrists,
)

_ROOMS = (eye_clinic, spine_mr, chest_reports, thyroid, liver_ct, wrists, dementia_pet, skin_or_cells)
FAMILIES = {name: family for room in _ROOMS for name, family in room.FAMILIES.items()}
CARDS = {name: card for room in _ROOMS for name, card in room.CARDS.items()}
