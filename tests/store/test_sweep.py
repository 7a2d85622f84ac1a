"""What nothing names is removed, what anything names directly or through other objects is not."""

import json
from pathlib import Path

from services.tool_runner.sweeping import carry_out
from shared.bus import Bus
from shared.bus.streams import EVENTS
from shared.contracts.base import new_run_id
from shared.contracts.erasure import References, Sweep, Swept
from shared.contracts.runs import RunRequested
from shared.contracts.tools import ToolCall
from shared.store import BUCKETS, Store
from shared.store.sweep import references_in, remove, shared, unnamed


def places(store: Store) -> set[tuple[str, str]]:
    return {(bucket, key) for bucket in BUCKETS for key, _ in store.listed(bucket)}


def test_what_is_named_through_other_objects_stays(store: Store, tmp_path: Path) -> None:
    for name in ("both", "mine", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        (tmp_path / name / "template").write_text("the same")
    mine, other = store.put_folder("work", tmp_path / "mine"), store.put_folder("work", tmp_path / "other")
    image = store.put_bytes("cases", b"image", "image/png")
    lines = json.dumps({"images": [image.model_dump()]}).encode() + b"\n{}\n"
    line = store.put_bytes("sealed", lines, "application/x-ndjson")
    index = store.put_bytes("cases", json.dumps({"segments": [line.model_dump()]}).encode(), "application/json")
    stranger = {"bucket": "sealed", "key": "x", "sha256": "no digest", "size": 1, "media_type": "application/json"}
    odd = store.put_bytes("packages", json.dumps([stranger, "\x00", 3]).encode(), "application/json")
    lost = unnamed(store, [other, index, odd])
    assert {key for _, key in lost} == {mine.key, *(ref.key for ref in only(store, mine, other))}
    assert shared(store, [mine], lost).bytes == len("the same")
    remove(store, lost)
    assert lost.keys().isdisjoint(places(store)) and len(places(store)) == 7
    assert store.get_folder(other, tmp_path / "again").files.keys() == {"file", "template"}
    assert unnamed(store, [other, index, odd]) == {}


def only(store: Store, one: object, other: object) -> list:
    mine, theirs = (set(references_in(store.get_bytes(ref))) for ref in (one, other))  # type: ignore[arg-type]
    return [ref for ref in mine - theirs]


async def test_a_sweep_that_comes_late_removes_nothing(store: Store, bus: Bus, tmp_path: Path) -> None:
    orphan = store.put_bytes("work", b"nobody's")
    listed = store.put_bytes("data", References(kept=(), gone=()).model_dump_json().encode(), "application/json")
    asked = Sweep(erased=(), references=listed, as_of={EVENTS: await bus.newest(EVENTS)})
    call = ToolCall(
        call_id="sweep-1",
        run_id="erasure",
        role="gateway",
        tool=Sweep.tool,
        arguments=asked.model_dump(mode="json"),
        reply="",
    )
    await bus.append(RunRequested.make(run_id=new_run_id(), sender="gateway", cause=None, requirement="x"))
    late = await carry_out(call, bus, store, tmp_path)
    assert not late.ok and "ask for the erasure again" in late.summary and store.exists(orphan)
    now = asked.model_copy(update={"as_of": {EVENTS: await bus.newest(EVENTS)}})
    done = await carry_out(call.model_copy(update={"arguments": now.model_dump(mode="json")}), bus, store, tmp_path)
    assert Swept.model_validate(done.data).erased["store: work"].count == 1 and not store.exists(orphan)
