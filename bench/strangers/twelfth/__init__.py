"""Three ordinary datasets of a research group by somebody who had not seen the code, with a card each."""

from bench.strangers.twelfth import breast_ultrasound, liver_lesions, tumour_mr

_ROOMS = (breast_ultrasound, liver_lesions, tumour_mr)
FAMILIES = {name: family for room in _ROOMS for name, family in room.FAMILIES.items()}
CARDS = {name: card for room in _ROOMS for name, card in room.CARDS.items()}
