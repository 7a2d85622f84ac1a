"""Tables with a row for each lesion of an examination, where a table of the pictures says which lesion each shows."""

from pathlib import Path

import pytest
from propose_files import picture, table

from shared.dataset.propose import propose

REQUEST = "tell from a picture whether it is benign or malignant"


@pytest.mark.parametrize("told", [True, False])
def test_the_picture_s_own_lesion_tells_its_class(tmp_path: Path, told: bool) -> None:
    pictures, lesions = [], []
    for n in range(60):
        # Most examinations have one lesion, so that a search sees what the column holds.
        for place, (side, spot) in enumerate((("L", 1), ("L", 2), ("R", 1))[: 3 if n % 4 == 0 else 1]):
            name = f"E{n + 100}_{place}.png"
            picture(tmp_path / f"images/{name}")
            pictures.append({"picture": name, **({"side": side, "spot": spot} if told else {"plane": "radial"})})
            kind = "pending" if (n, place) == (4, 1) else ("benign", "malignant")[(n // 2 + place) % 2]
            lesions.append({"exam": f"E{n + 100}", "person": f"P{n // 2}", "side": side, "spot": spot, "dx": kind})
    table(tmp_path / "pictures.csv", pictures)
    table(tmp_path / "lesions.csv", lesions)
    found = propose(tmp_path, "diagnosis", target=REQUEST, only=("benign", "malignant"))
    if not told:
        assert all(one.coverage.cases < 90 or "dx" not in one.says for one in found)
        return
    best = found[0]
    assert set(best.rules["tables"]["lesions"]["rows"]) == {"side", "spot"}
    assert best.rules["fields"]["spot"] == {"table": "pictures", "column": "spot"}
    assert (best.coverage.cases, best.coverage.patients) == (89, 30)
    assert best.coverage.label_names == ("benign", "malignant"), "what is pending has no class yet"
