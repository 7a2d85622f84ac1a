"""A NATS cluster of three on loopback, one of which is killed."""

from pathlib import Path

import pytest

from bench.cluster import PARTS, measure
from shared.bus import Bus
from shared.errors import ServerUnfit
from shared.settings import Settings
from tests.nats_cluster import Cluster


@pytest.mark.slow
async def test_a_killed_server_of_three_costs_no_acknowledged_event(tmp_path: Path) -> None:
    found = await measure(40, tmp_path)
    assert {part: len(seconds) for part, seconds in found.seconds.items()} == dict.fromkeys(PARTS, 40)
    assert len(found.acknowledged) == 240 and not found.lost


async def test_a_cluster_keeps_three_copies_and_is_reached_while_one_is_away(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    settings = Settings(home=tmp_path, nats_url=cluster.urls)
    try:
        bus = await Bus.connect(settings, "gateway")
        await bus.provision()
        kept = {one.config.name: one.config.num_replicas for one in await bus.connection.js.streams_info()}
        assert set(kept.values()) == {3}, kept
        await bus.close()
        cluster.servers[0].kill()
        bus = await Bus.connect(settings, "gateway")
        await bus.prove_fence()
        await bus.close()
        cluster.start_again(0)
        # An operator may ask for less, and not for more than there are.
        for wanted in (1, 5):
            bus = await Bus.connect(settings.model_copy(update={"nats_replicas": wanted}), "gateway")
            if wanted == 1:
                await bus.provision()
                assert (await bus.connection.js.stream_info("EVENTS")).config.num_replicas == 1
            else:
                with pytest.raises(ServerUnfit, match="M3_NATS_REPLICAS"):
                    await bus.provision()
            await bus.close()
    finally:
        cluster.stop()
