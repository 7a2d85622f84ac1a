"""The command that shows what a role is told before its first turn."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from services.command.console import connect
from shared.agent.prompt import opening_parts, system_parts, tool_schemas
from shared.agent.solo import alone
from shared.contracts.base import AGENTS
from shared.contracts.runs import SWITCHES, Switch
from shared.errors import UserError
from shared.models import cores, make_core
from shared.models.endpoint import EndpointCore
from shared.settings import Settings

BYTES = 3.5
"""Of a token, about."""

app = typer.Typer()


@app.command()
def prompt(
    role: Annotated[str, typer.Argument(help=f"{', '.join(AGENTS)}, or solo: who works without collaboration.")],
    core: Annotated[str, typer.Option(help="A model: also tells what its first request costs.")] = "",
    run_id: Annotated[str, typer.Option("--run", metavar="RUN", help="With the first message of this run.")] = "",
    without: Annotated[str, typer.Option(metavar="PARTS", help="As of `m3builder run`.")] = "",
    short: Annotated[bool, typer.Option(help="Only the table of tokens.")] = False,
) -> None:
    """What a role is told before its first turn, as a person reads it, with the tokens of each part."""
    from services.team import TEAM  # the playbooks take long to import

    if role not in (*AGENTS, "solo"):
        raise UserError(f"There is no role {role!r}; they are {', '.join(AGENTS)} and solo.")
    solo = role == "solo"
    one = next(each for each in TEAM if each.name == (TEAM[0].name if solo else role))
    one = alone(one, TEAM) if solo else one
    left_out: tuple[Switch, ...] = tuple(each for each in SWITCHES if each in without.split(","))
    parts = {f"system: {title}": text for title, text in system_parts(one, left_out).items()}
    tools = {f"tool: {tool['name']}": tool for tool in tool_schemas(one)}
    parts |= {title: json.dumps(tool) for title, tool in tools.items()}
    if run_id:
        with connect() as gateway:
            brief = gateway.briefs(run_id).get(one.name)
        if brief is None:
            raise UserError(f"{role} has not been woken in {run_id}, so it has no first message there.")
        parts |= {f"first message: {title}": text for title, text in opening_parts(brief).items()}
    if not short:
        for title, text in parts.items():
            print(f"----- {title}\n{_readable(tools[title]) if title in tools else text.strip()}\n")
    tokens = {title: len(text.encode()) / BYTES for title, text in parts.items()}
    for title, many in [*tokens.items(), ("in all", sum(tokens.values()))]:
        print(f"{many:>7,.0f}  {title}")
    print(f"Tokens are an estimate: bytes / {BYTES}.")
    if core:
        print(_cost(core, one.name, round(sum(tokens.values()))))


def _readable(tool: Mapping[str, Any]) -> str:
    """A tool's description and arguments, without the grammar of a schema."""
    schema = tool["input_schema"]
    lines = [
        f"  {name}{' (needed)' if name in schema.get('required', ()) else ''}: "
        f"{' or '.join(map(str, kind['enum'])) if 'enum' in kind else kind.get('type', 'a value')}"
        for name, kind in schema["properties"].items()
    ]
    return "\n".join([tool["description"], *lines])


def _cost(spec: str, role: str, tokens: int) -> str:
    name = {str(each): its for each, its in cores(spec).items()}[role]
    found = make_core(name, Settings().models_file)
    if not isinstance(found, EndpointCore):
        return f"{name} reads no prompt."
    spent = found.listing.spent(tokens, 0, 0, 0)
    price = "its price is not known" if spent.unpriced else f"{spent.usd:.4f} USD to read once"
    return f"{found.name}: room for {found.listing.model.context:,} tokens; {price}."
