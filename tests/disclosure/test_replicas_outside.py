"""Nothing of a dataset leaves for an endpoint outside, and the role can still do its work."""

import asyncio
import json
from itertools import cycle
from pathlib import Path

import pytest
import yaml

from m3bench.replicas import GENERATORS, LAYOUTS, make
from shared.disclosure.guard import Guard
from shared.models.anthropic import AnthropicCore
from shared.models.catalogue import Listing, Model, read_catalogue
from shared.models.endpoint import EndpointCore
from shared.models.openai import OpenAICore
from tests.agents.data_engineer_bench import brief
from tests.disclosure.conversation import CANARIES, converse, leaks, prepared, steps
from tests.disclosure.conversation import Model as Played
from tests.models.model_endpoints import serving
from tests.models.protocols import Anthropic, OpenAI, Protocol

TASKS = {"btcv": "organ_segmentation", "verse": "organ_segmentation", "instance2022": "anomaly_detection",
         "msd-pancreas": "anomaly_detection", "ct-rate": "report_generation", "iu-xray": "report_generation",
         "chestx-det10": "anomaly_detection"}  # fmt: skip


def outside(protocol: Protocol) -> EndpointCore:
    kind = AnthropicCore if protocol.name == "anthropic" else OpenAICore
    place = read_catalogue().endpoints[protocol.name]
    assert not place.inside
    return kind(Listing(protocol.name, place, Model(endpoint=protocol.name, model="m", context=10**6), True), 0, 30)


async def look_at(key: str, layout: str, protocol: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(key, tmp_path / "replica", layout=layout, workers=1)
    bench = prepared(tmp_path, tmp_path / "replica")
    profile = await asyncio.to_thread(bench.profile)
    given = brief(
        profile=profile, requirement="build a model from these images", task=TASKS.get(key, "diagnosis"),
        modality="CT",
    ).model_copy(update={"secret": "5e" * 32})  # fmt: skip
    played = Played(protocol, steps())
    monkeypatch.setenv(f"{protocol.name.upper()}_API_KEY", "k")
    with serving(played) as endpoint:
        monkeypatch.setenv(f"{protocol.name.upper()}_BASE_URL", endpoint.url)
        work = await converse(outside(protocol), bench, given)
    guard = Guard("a7" * 32)
    for one in work.results:  # any word of them may stand in a call
        real = guard.back(guard.hide(one.summary))[0].split()
        assert [a for a, b in zip(one.summary.split(), real, strict=True) if a != b and "\\" not in a] == []
    raw = json.dumps([one.summary for one in work.results], ensure_ascii=False)
    seen = [one for one in CANARIES if one.lower() in raw.lower()]
    assert len(seen) > 15, "the tools do show what is to be hidden"
    assert len(played.sent) == 3
    for sent in played.sent:
        assert not leaks(sent, bench.data)
    by_tool = {call.name: (call, result) for call, result in zip(work.calls, work.results, strict=False)}
    files = by_tool["preview_files"][1].data["files"]
    assert isinstance(files, dict) and len(files) > 3
    assert not [path for path, facts in files.items() if "no such" in str(facts).lower()], "paths are mapped back"
    proposed = by_tool["propose_rules"][1].data["proposals"]
    if proposed:
        tried = by_tool["try_rules"]
        assert yaml.safe_load(str(tried[0].arguments["text"])) == proposed[0]["rules"], "rules come back as they were"


async def test_nothing_leaves_and_the_work_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await look_at("covid19", "paper", Anthropic(), tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(("key", "layout"), list(zip(GENERATORS, cycle(LAYOUTS))))  # in every other one as distributed
async def test_of_no_replica(key: str, layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await look_at(key, layout, OpenAI(), tmp_path, monkeypatch)
