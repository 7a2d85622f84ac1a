"""Seven layouts of a person who had not seen the code, written small; at first sight none was right."""

from bench.strangers.sixth import films, volumes

FAMILIES = films.FAMILIES | volumes.FAMILIES
