"""The command that shows what a role is told before its first turn."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from services.command.console import connect, some
from shared.agent.prompt import opening_parts, system_parts, tool_schemas
from shared.agent.role import Role
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
    role: Annotated[
        str,
        typer.Argument(help=f"{', '.join(AGENTS)}, or solo: who works without collaboration; none for a table of all."),
    ] = "",
    core: Annotated[str, typer.Option(help="A model: also tells what its first request costs.")] = "",
    run_id: Annotated[str, typer.Option("--run", metavar="RUN", help="With the first message of this run.")] = "",
    without: Annotated[str, typer.Option(metavar="PARTS", help="As of `m3builder run`.")] = "",
    short: Annotated[bool, typer.Option(help="Only the table of tokens.")] = False,
    table: Annotated[bool, typer.Option(help="What each part of --without changes, side by side.")] = False,
) -> None:
    """What a role is told before its first turn, as a person reads it, with the tokens of each part."""
    if table or not role:
        print(side_by_side(AGENTS if role in ("", "solo") else [role]))
        return
    solo = role == "solo"
    left_out = some(without, SWITCHES, "--without")
    one = _role(AGENTS[0] if solo else role, (*left_out, "collaboration") if solo else left_out)
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


def _role(name: str, left_out: Sequence[Switch]) -> Role:
    from services.team import TEAM  # the playbooks take long to import

    found = next((each for each in TEAM if each.name == name), None)
    if found is None:
        raise UserError(f"There is no role {name!r}; they are {', '.join(AGENTS)} and solo.")
    return alone(found, TEAM) if "collaboration" in left_out else found


def side_by_side(names: Sequence[str]) -> str:
    """A line for each role and switch: tokens, tools, and what of its prompt is gone or new."""
    ways: list[tuple[Switch, ...]] = [(), *((switch,) for switch in SWITCHES), SWITCHES]
    lines = [f"{'role':<17}{'without':<15}{'tokens':>7}{'tools':>7}  what differs"]
    for name in names:
        whole = _role(name, ())
        for way in ways:
            role, said = _role(name, way), "nothing" if not way else "all four" if way == SWITCHES else way[0]
            tools = {tool["name"]: json.dumps(tool) for tool in tool_schemas(role)}
            size = sum(len(text.encode()) for text in (*system_parts(role, way).values(), *tools.values()))
            before, after = _sections(whole, ()), _sections(role, way)
            differs = [f"- {one}" for one in _only(before, after)] + [f"+ {one}" for one in _only(after, before)]
            more = [one for one in tools if one not in {tool["name"] for tool in tool_schemas(whole)}]
            differs += [f"+ tools {', '.join(more)}"] if more else []
            lines.append(f"{name:<17}{said:<15}{size / BYTES:>7,.0f}{len(tools):>7}  {'; '.join(differs)}".rstrip())
    return "\n".join([*lines, f"Tokens are an estimate: bytes / {BYTES}; - is gone, + is new."])


def _sections(role: Role, left_out: Sequence[Switch]) -> list[str]:
    """Names of the parts of its prompt and of their sections."""
    found = []
    for title, text in system_parts(role, left_out).items():
        found += [title, *(f"{title}: {one.partition(chr(10))[0]}" for one in text.split("\n## ")[1:])]
    return found


def _only(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """What the other does not have; of a part that it does not have at all, no sections."""
    return [title for title in one if title not in other and (": " not in title or title.partition(": ")[0] in other)]


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
