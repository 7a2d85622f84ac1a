"""`m3builder dataset check DIR`: the dataset gate on this machine, as a table for a person. Needs no running system."""

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

import services
from services.gateway.console import out
from shared.errors import UserError
from shared.trainkit.gate.summary import example_lines, finding_line, overview_lines, summary, verdict

NOT_CHECKED = 3


def examine(folder: Path) -> dict[str, Any]:
    """Facts and findings, from the sandbox. UserError for a folder that is none; exits with 3 where nothing can run."""
    if not folder.is_dir():
        there = "is a file; unpack it, or name the folder" if folder.exists() else "does not exist; name the folder"
        raise UserError(f"{folder} {there} that holds the dataset.")
    asked = [sys.executable, "-m", "services.tool_runner.local", str(folder.absolute())]
    with out.status(f"looking at {folder}") if out.is_terminal else nullcontext():
        done = subprocess.run(
            asked, cwd=Path(services.__path__[0]).parent, capture_output=True, text=True, check=False
        )  # fmt: skip
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        typer.echo(f"The dataset was not checked: {said}", err=True)
        raise typer.Exit(NOT_CHECKED)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def show(folder: Path, found: Mapping[str, Any]) -> None:
    """What is there, then what is wrong with it, errors first, each with its repair."""
    if not out.is_terminal:
        print(summary(str(folder), found))
        return
    out.print(f"[bold]{escape(str(folder))}[/]  ({found['isolation']})", soft_wrap=True)
    head = Table(box=None, show_header=False, pad_edge=False)
    head.add_column(style="dim", no_wrap=True)
    head.add_column(overflow="fold")
    for what, text in overview_lines(found["overview"]):
        head.add_row(what, escape(text))
    out.print(head)
    for one in found["findings"]:
        out.print(_finding(one))
    for text in found["skipped"]:
        out.print(f"[dim]not all was looked at: {escape(text)}[/]", soft_wrap=True)
    out.print()
    colour = "red" if found["errors"] else "yellow" if found["warnings"] else "green"
    out.print(f"[{colour}]{verdict(found)}[/] Nothing in the folder was changed.", soft_wrap=True)


def _finding(one: Mapping[str, Any]) -> Padding:
    """What was found, where, and what to do, under one another, so that it reads at any width."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, width=8)
    table.add_column(overflow="fold")
    table.add_row("[red]error[/]" if one["severity"] == "error" else "[yellow]warning[/]", escape(finding_line(one)))
    for text in example_lines(one):
        table.add_row("", f"[dim]{escape(text)}[/]")
    table.add_row("", f"[cyan]do:[/] {escape(one['repair'])}")
    return Padding(table, (1, 0, 0, 0))
