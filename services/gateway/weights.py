"""The shelf of weights over HTTP. A file is sent as an archive is, and looked at by a runner before it is offered."""

import asyncio
import secrets
from datetime import UTC, datetime

from fastapi import APIRouter

from services.gateway import bodies
from services.gateway.parts import PROBLEMS, Known, Who, needs
from shared.contracts.tools import ToolCall
from shared.contracts.weights import LookAtWeights, Looked, Weights
from shared.errors import NotFound, UserError
from shared.store.client import ref_of

LOOK_SECONDS = 600.0
router = APIRouter(responses=PROBLEMS, dependencies=needs("data"), tags=["weights"])


@router.post("/weights", status_code=201)
async def add_weights(body: bodies.NewWeights, parts: Known, who: Who) -> Weights:
    """Put a file that POST /archives stored on the shelf, from which trainings may begin; the same name again replaces
    it. A file that is no state dict, or would execute code, is refused."""
    file = ref_of("data", body.file.sha256, body.file.size)
    if not await asyncio.to_thread(parts.store.exists, file):
        raise NotFound("The file is not in the store with that content. Send it again: POST /archives.")
    call = ToolCall(
        call_id=f"weights-{secrets.token_hex(8)}",
        run_id=body.name,
        role="gateway",
        tool=LookAtWeights.tool,
        arguments=LookAtWeights(file=file, suffix=body.suffix).model_dump(mode="json"),
        reply="",
    )
    known = {card.dataset_id for card in await parts.bus.cards()}
    if unknown := sorted(set(body.learned_from) - known):
        raise NotFound(f"There is no dataset {', '.join(unknown)} here. `m3builder dataset list` tells what there is.")
    seen = await parts.bus.call("data", call, LOOK_SECONDS)
    if not seen.ok:
        raise UserError(
            f"{body.name} was not put on the shelf: {seen.summary} Give a state dict: a .safetensors file, or what "
            "torch.save(model.state_dict()) wrote."
        )
    weights = Weights(
        name=body.name, file=file, suffix=body.suffix, licence=body.licence.strip(), source=body.source.strip(),
        learned_from=body.learned_from, added_by=who.name, at=datetime.now(UTC),
        looked=Looked.model_validate(seen.data),
    )  # fmt: skip
    await parts.bus.put_weights(weights)
    parts.uploads.taken(file)
    return weights


@router.get("/weights")
async def list_weights(parts: Known) -> list[Weights]:
    """The shelf, by name."""
    return await parts.bus.weights()


@router.delete("/weights/{name}")
async def remove_weights(name: str, parts: Known) -> Weights:
    """Take weights off the shelf. Trainings that begin later do without; the file goes with the next erasure."""
    found = next((one for one in await parts.bus.weights() if one.name == name), None)
    if found is None:
        raise NotFound(f"There are no weights {name} on the shelf. `m3builder weights list` tells.")
    await parts.bus.remove_weights(found.name)
    return found
