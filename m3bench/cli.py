"""`m3bench`: the benchmark on the command line."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from m3bench import exported, others, page, replicas, results, runs, show, tables, tasks
from shared.contracts.runs import SWITCHES, Switch
from shared.errors import M3Error, UserError

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="M3Bench: replicas, cards and runs of the benchmark."
)
ALL = "all"
LIKE = "An export whose sealed cases are to be the same; its size, seed and seconds hold."


@contextmanager
def told_plainly() -> Iterator[None]:
    """What is wrong with the input, in a line; exit code 2."""
    try:
        yield
    except (M3Error, OSError) as error:
        typer.echo(f"m3bench: {error}", err=True)
        raise typer.Exit(2) from None


def switches(names: Sequence[str]) -> tuple[Switch, ...]:
    if unknown := sorted(set(names) - set(SWITCHES)):
        raise UserError(f"{unknown[0]!r} cannot be left out; these can: {', '.join(SWITCHES)}")
    return tuple(one for one in SWITCHES if one in names)


@app.command("make")
def make_command(
    name: Annotated[str, typer.Argument(help="Replica, by its card's name or id (see `m3bench list`), or `all`.")],
    folder: Annotated[Path, typer.Argument(help="New or empty folder; `all` makes one in it for each.", metavar="DIR")],
    size: Annotated[str, typer.Option(help="tiny, small or layout (the real number of cases).")] = "tiny",
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 0,
    patients: Annotated[int | None, typer.Option(help="So many, in the unit that `list` says.")] = None,
    layout: Annotated[str, typer.Option(help="paper, or distributed: as the original is.")] = "paper",
) -> None:
    """Write a made-up dataset in the real one's layout; its truth goes beside it, to DIR.truth.json."""
    with told_plainly():
        if name == ALL:
            _make_all(folder, size, seed, patients, layout)
        else:
            made = replicas.measured(name, folder, size=size, seed=seed, patients=patients, layout=layout)
            typer.echo(
                f"{folder}: {made.files} files, {made.megabytes:.1f} MB, {made.seconds:.1f} s; truth in {made.truth}"
            )


def _make_all(folder: Path, size: str, seed: int, patients: int | None, layout: str) -> None:
    done: list[replicas.Made] = []
    for made in replicas.make_all(folder, size=size, seed=seed, patients=patients, layout=layout):
        typer.echo(f"{made.folder}", err=True)
        done.append(made)
    typer.echo(_table(done, f"{size}, {layout}"))


def _table(done: Sequence[replicas.Made], what: str) -> str:
    def line(name: str, *of: replicas.Made) -> str:
        files, megabytes, seconds = (
            sum(getattr(made, part) for made in of) for part in ("files", "megabytes", "seconds")
        )
        return f"{name:24}{files:8}{megabytes:9.1f}{seconds:8.1f}"

    lines = [line(made.key, made) for made in done]
    return "\n".join([f"{what:24}{'files':>8}{'MB':>9}{'s':>8}", *lines, line("together", *done)])


@app.command("list")
def list_command() -> None:
    """Name the replicas."""
    for key in sorted(replicas.GENERATORS):
        _, replica = replicas.find(key)
        sizes = ", ".join(f"{size} {count} {replica.unit}" for size, count in replica.patients.items())
        typer.echo(f"{key:12} {replica.summary} ({sizes})")


@app.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="Replica that DIR holds, or `all` for what `make all` wrote.")],
    folder: Annotated[Path, typer.Argument(help="The dataset.", metavar="DIR", exists=True, file_okay=False)],
    output: Annotated[Path, typer.Option(help="Picture to write (PNG).")],
    cases: Annotated[int | None, typer.Option(min=1, help="How many cases to show (4; 1 each with `all`).")] = None,
) -> None:
    """Draw a few cases: planes of volumes, without and with the masks in colour; with `all`, some of each replica."""
    folder = folder.absolute()
    with told_plainly():
        if name == ALL:
            count = show.overview([folder / key for key in sorted(replicas.GENERATORS)], output, cases=cases or 1)
        else:
            replicas.find(name)
            count = show.montage(folder, output, cases=cases or 4)
    typer.echo(f"{output}: {count} cases of {folder}")


@app.command("run")
def run_command(
    folder: Annotated[Path, typer.Argument(help="New, or of an earlier call: holds the system and its data.")],
    task: Annotated[list[str] | None, typer.Option(help="Task or dataset; may be repeated. All 14 without it.")] = None,
    core: Annotated[list[str] | None, typer.Option(help="May be repeated; playbook without it.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each task; each has data and words of its own.")] = 1,
    size: Annotated[str, typer.Option(help="tiny or small.")] = "tiny",
    layout: Annotated[str, typer.Option(help="distributed, or paper.")] = "distributed",
    seconds: Annotated[float, typer.Option(min=1, help="That each training may take.")] = 90.0,
    without: Annotated[
        list[str] | None, typer.Option(help=f"An ablation: {', '.join(SWITCHES)}; may be repeated.")
    ] = None,
    unserved: Annotated[
        bool,
        typer.Option("--unserved", help="Also requests that no dataset serves, or whose own lacks labels or masks."),
    ] = False,
    data: Annotated[Path | None, typer.Option(help="Folder with real datasets, each named as `list` does.")] = None,
    parallel: Annotated[int, typer.Option(min=1, help="Runs at once.")] = max(1, (os.cpu_count() or 1) // 2),
    output: Annotated[Path | None, typer.Option("--results", help="FOLDER/results.jsonl without it.")] = None,
) -> None:
    """Run tasks from the sentence to the score, and print the tables; what the results have is not run again."""
    path = output or folder / "results.jsonl"
    with told_plainly():
        plan = runs.Plan(
            folder=folder, results=path, tasks=tasks.chosen(task or ()),
            cores=core or ["playbook"], rounds=rounds, size=size, layout=layout, train_seconds=seconds,
            without=switches(without or ()), unserved=unserved, real=data, parallel=parallel,
        )  # fmt: skip
        lost = runs.run(plan, lambda one: typer.echo(tables.line(one)))
        typer.echo("\n" + tables.told(results.read(path)))
        if lost:
            raise UserError("\n".join([f"No result was had of {len(lost)} runs; call again to run them.", *lost]))


@app.command("export")
def export_command(
    task: Annotated[str, typer.Argument(help="Task or dataset.")],
    folder: Annotated[
        Path, typer.Argument(help="New folder; what is sealed goes to DIR.m3bench beside it.", metavar="DIR")
    ],
    size: Annotated[str, typer.Option(help="tiny or small.")] = "tiny",
    layout: Annotated[str, typer.Option(help="distributed, or paper.")] = "distributed",
    seed: Annotated[int, typer.Option(help="Of the replica.")] = 0,
    seconds: Annotated[float, typer.Option(min=1, help="Of training that the prompt allows.")] = 90.0,
    like: Annotated[Path | None, typer.Option(help=LIKE)] = None,
) -> None:
    """Write a workspace with a prompt to which any coding agent can be pointed; keep DIR.m3bench out of its reach."""
    with told_plainly():
        if like:
            exported.export_like(like, folder, tasks.find(task))
        else:
            exported.export(tasks.find(task), folder, size, layout, seed, seconds)
        typer.echo(
            f"{folder / 'PROMPT.md'} is the prompt. `m3bench score {folder}` scores the package that is left there."
        )


@app.command("score")
def score_command(
    folder: Annotated[Path, typer.Argument(help="What `export` wrote, with a package.", metavar="DIR")],
    system: Annotated[str, typer.Option(help="Whose work it is, for the tables.")] = "another system",
    actions: Annotated[int | None, typer.Option(min=0, help="That it made, where somebody counted.")] = None,
    iterations: Annotated[int, typer.Option(min=1, help="Rounds of self-correction, the first one among them.")] = 1,
    tokens: Annotated[int, typer.Option(min=0, help="That it used.")] = 0,
    ended: Annotated[bool, typer.Option("--no-package", help="It stopped; that it left no package counts.")] = False,
    output: Annotated[Path | None, typer.Option("--results", help="DIR.m3bench/results.jsonl without it.")] = None,
) -> None:
    """Score the package in DIR by the scorer, the gates and the controls that our own runs get."""
    with told_plainly():
        found = exported.score(folder, system, ended)
        if actions is not None:
            part = results.Part(done=found.valid, actions=actions, iterations=iterations, tokens=tokens)
            found = found.model_copy(update={"parts": {system: part}})
        results.append(output or folder.with_name(folder.name + ".m3bench") / "results.jsonl", found)
        typer.echo(tables.line(found))


@app.command("other")
def other_command(
    name: Annotated[str, typer.Argument(help=f"Another coding agent that is installed: {', '.join(others.OTHERS)}.")],
    task: Annotated[str, typer.Argument(help="Task or dataset.")],
    folder: Annotated[Path, typer.Argument(help="New folder for its workspace.", metavar="DIR")],
    core: Annotated[str, typer.Option(help="Its model, as `m3builder run --core` names it.")],
    size: Annotated[str, typer.Option(help="tiny or small.")] = "tiny",
    seed: Annotated[int, typer.Option(help="Of the replica.")] = 0,
    seconds: Annotated[float, typer.Option(min=1, help="Of training that the prompt allows.")] = 90.0,
    wall: Annotated[float, typer.Option(min=1, help="Seconds after which it is stopped.")] = 7200.0,
    like: Annotated[Path | None, typer.Option(help=LIKE)] = None,
    output: Annotated[Path | None, typer.Option("--results", help="DIR.m3bench/results.jsonl without it.")] = None,
) -> None:
    """Export a task, let another agent build it with the same model and limits, and score what it left."""
    with told_plainly():
        found = others.run(name, tasks.find(task), folder, core, size, seed, seconds, wall, like)
        results.append(output or folder.with_name(folder.name + ".m3bench") / "results.jsonl", found)
        typer.echo(tables.line(found))


@app.command("tables")
def tables_command(
    paths: Annotated[list[Path], typer.Argument(help="Files that `run` wrote.", exists=True, dir_okay=False)],
    html: Annotated[Path | None, typer.Option(help="Write the leaderboard page there, too.")] = None,
) -> None:
    """Print results as the paper's Tables 1 to 3."""
    with told_plainly():
        found = [one for path in paths for one in results.read(path)]
        typer.echo(tables.told(found))
        if html:
            html.write_text(page.page(found), encoding="utf-8")


def main() -> None:
    app()


if __name__ == "__main__":
    main()
