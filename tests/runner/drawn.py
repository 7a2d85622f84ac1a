"""What a report shows of its cases, read back out of the page."""

import base64
import html
import io
import re
from dataclasses import dataclass

import numpy as np
from PIL import Image

from shared.contracts.pictures import MAX_PNG


@dataclass
class Tile:
    words: str
    picture: np.ndarray | None
    """(height, width, 3)"""

    def box(self, colour: str, left: int = 0, right: int | None = None) -> tuple[int, int]:
        """Width and height of what has this colour between two columns."""
        assert self.picture is not None
        rows, columns = np.nonzero((self.picture[:, left:right] == rgb(colour)).all(axis=2))
        return int(np.ptp(columns)) + 1, int(np.ptp(rows)) + 1


def tiles(page: str) -> dict[str, Tile]:
    """Case -> its tile, in the order of the page."""
    found = {}
    for figure in re.findall(r'<figure class="case">.*?</figure>', page, re.DOTALL):
        data = re.search(r'src="data:image/png;base64,([^"]+)"', figure)
        picture = None
        if data:
            png = base64.b64decode(data[1])
            assert len(png) <= MAX_PNG
            with Image.open(io.BytesIO(png)) as opened:
                picture = np.asarray(opened.convert("RGB"))
        words = " ".join(html.unescape(re.sub("<[^>]+>", " ", figure)).split())
        number = re.search(r"Case (\d+)", words)
        assert number
        found[number[1]] = Tile(words, picture)
    return found


def rgb(colour: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(colour[1:]), np.uint8)
