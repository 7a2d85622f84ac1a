"""An observation that is more than a message."""

from shared.agent.bounds import bounded
from shared.contracts.base import MAX_MESSAGE_BYTES
from shared.contracts.tools import Picture, ToolResult
from shared.contracts.transcript import Observation


def told(number: int, characters: int, values: int = 0, pictures: int = 0) -> ToolResult:
    shown = tuple(Picture(name="v.png", media_type="image/png", content="A" * 60_000) for _ in range(pictures))
    data = {"job_id": "j"} | ({"text": "y" * values} if values else {})
    text = "x" * (characters - 4) + "\nend"
    return ToolResult(call_id=f"c{number}", tool="t", ok=True, summary=text, data=data, pictures=shown)


def seen(*results: ToolResult) -> Observation:
    found = bounded(Observation(run_id="r1", role="model_trainer", number=1, results=results))
    assert len(found.model_dump_json().encode()) <= MAX_MESSAGE_BYTES
    return found


def test_what_fits_stays_as_it_is() -> None:
    results = (told(0, 12_000, 50_000), told(1, 100, pictures=2))
    assert seen(*results).results == results


def test_pictures_go_first_then_values_then_texts() -> None:
    first, last = seen(told(0, 12_000, 60_000, 1), told(1, 12_000, 60_000, 1), told(2, 500, pictures=1)).results[::2]
    assert first.pictures and first.data["text"] and not last.pictures and "no room for more pictures" in last.summary
    many = seen(*(told(n, 12_000, 12_000) for n in range(15)), told(15, 500)).results
    assert not any(one.truncated for one in many) and many[-1].data == {"job_id": "j"}
    texts = seen(*(told(n, 12_000) for n in range(30))).results
    assert any("characters left out" in one.summary for one in texts)
    assert all(one.summary.endswith("end") for one in texts)
