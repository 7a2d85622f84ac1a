"""What a model can do, tried before a run rests on it: does it answer, call a tool, see a picture?"""

from typing import Any

from shared.errors import M3Error, ToolBroken, UserError
from shared.models.endpoint import EndpointCore

SECONDS = 60.0

LONG = 60_000
"""Characters, about what a role's system prompt, tools and first messages come to after some turns."""

TOOLS_OFF = (
    "vLLM wants --enable-auto-tool-choice and --tool-call-parser, llama.cpp --jinja, Ollama a model with `tools`"
)

_PING = {
    "name": "ping",
    "description": "Answers `pong`.",
    "input_schema": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
}
_RED = (
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAS0lEQVR42u3PQQkAAAgAsetfWiP4FgYrsKZeS0BAQEBAQEBAQEBA"
    "QEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEDgsqnc8OJg6Ln3AAAAAElFTkSuQmCC"
)
"""A PNG of 64 by 64 pixels in base64."""


class Trial:
    """Of one core. All methods raise UserError or Unavailable, in a line that says what to set."""

    def __init__(self, core: EndpointCore) -> None:
        # Somebody waits for it: no retries, no rest.
        self._core = type(core)(core.listing, max_retries=0, timeout=SECONDS, patience=0)

    async def answers(self) -> None:
        """Whether the model is there for this key; where the endpoint tells its models, this costs nothing."""
        model = self._core.listing.model.model

        async def look(client: Any) -> object:
            return await client.models.retrieve(model)

        try:
            found = await self._core.call(look)
        except M3Error:
            found = None
        if found is None or isinstance(found, str):  # a page
            # Not every server tells its models, or by the names it serves them: only a request is sure.
            await self.calls_a_tool()

    async def calls_a_tool(self) -> bool:
        """Whether it makes the one call that it is asked for."""
        told = 'Call the tool `ping` with the word "here".'
        try:
            said = await self._core.ask(self._core.request("You are a test.", [_PING], told, []))
        except ToolBroken as error:
            raise UserError(f"{error}: is it a model that calls tools? {TOOLS_OFF}") from None
        return [(call.name, *call.arguments) for call in said.calls] == [("ping", "word")]

    async def remembers(self) -> bool:
        """Whether what stands first is still there at the end of a request as long as a role's: servers of one's own
        may cut prompts without a word."""
        told = "The first word is: heron.\n" + "This line is there to be long, and says nothing.\n" * (LONG // 49)
        said = await self._core.ask(self._core.request(told, [], "What is the first word? Answer with that word.", []))
        return "heron" in said.text.lower()

    async def sees(self) -> bool:
        """Whether it reads pictures: a red square, sent with a question for its colour."""
        question = "Which colour is this picture? Answer with one word."
        try:
            said = await self._core.ask(self._core.request("You are a test.", [], question, [], picture=_RED))
        except ToolBroken:  # refused as a request
            return False
        return "red" in said.text.lower()
