"""More layouts of public downloads and of departments' disks, by someone who has not seen the code of the search."""

from bench.strangers.ninth import pictures, volumes

FAMILIES = pictures.FAMILIES | volumes.FAMILIES
