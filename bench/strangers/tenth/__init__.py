"""Ten layouts by two people who had not seen the code, with a card each as a physician would write it."""

from bench.strangers.tenth import cardiac, ctbrain, derm, fundus, glioma, hipxray, kidneyus, lungct, mammo, slides

_ROOMS = (mammo, cardiac, derm, ctbrain, kidneyus, glioma, fundus, slides, hipxray, lungct)
FAMILIES = {name: family for room in _ROOMS for name, family in room.FAMILIES.items()}
CARDS = {name: card for room in _ROOMS for name, card in room.CARDS.items()}
