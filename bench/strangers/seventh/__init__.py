"""Eight layouts after public archives and hospital exports, written by someone who has not seen the code of the search."""

from bench.strangers.seventh import pictures, volumes

FAMILIES = pictures.FAMILIES | volumes.FAMILIES
