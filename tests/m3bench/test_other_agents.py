"""Other coding agents: what their logs say, the walls around them, and a whole run of each that is installed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from m3bench import mlagentbench, others, results, tables
from m3bench.cli import app
from m3bench.results import Part
from tests.models.model_endpoints import Endpoint, serving
from tests.models.protocols import OpenAI, Reply

DATA = Path(__file__).with_name("data")
"""Logs of whole runs against an endpoint that says what is below, without what is not read."""
TRAIN = """set -e
cp -r templates/diagnosis built
cp train_index.jsonl label_map.json built
cd built
sed -i 's/^ *train_seconds: .*/  train_seconds: 40/' config.yaml
PYTHONPATH=../library M3_DATA=../data python train.py --config config.yaml
cp -r package ../package
"""
REPLY = OpenAI().reply


def look(folder: Path) -> str:
    return (
        f"cat {folder}.m3bench/exported.json; umount {folder}.m3bench; ls {folder}.m3bench/home; "
        f"python -c 'import m3bench.replicas'; touch {folder}.m3bench/../touched /usr/touched"
    )


def mini(peek: str) -> list[Reply]:
    commands = [peek, "false", TRAIN, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"]
    return [
        REPLY((f"c{n}", "bash", {"command": one}), text="Next.", read=1000, wrote=50) for n, one in enumerate(commands)
    ]


def aider(peek: str) -> list[Reply]:
    scripts = [f"{peek}\nexit 3\n", TRAIN]
    return [REPLY(text=f"Next.\n\nrun.sh\n```\n{one}```\n", read=1000, wrote=50) for one in scripts]


def researcher(peek: str) -> list[Reply]:
    def step(action: str, given: str) -> Reply:
        plan = "Reflection: none.\nResearch Plan and Status: go on.\nFact Check: none.\nThought: next.\n"
        return REPLY(text=f"{plan}Action: {action}\nAction Input: {given}\n", read=1000, wrote=50)

    script = f"import subprocess\nprint(subprocess.run({peek!r}, shell=True, capture_output=True, text=True).stderr)\n"
    script += f"subprocess.run({TRAIN!r}, shell=True, check=True)\n"
    edit = '{"script_name": "run.py", "edit_instruction": "Write it.", "save_name": "run.py"}'
    return [
        step("Execute Script", '{"script_name": "none.py"}'),
        step("Edit Script (AI)", edit),
        REPLY(text=f"```python\n{script}```", read=1000, wrote=50),
        step("Execute Script", '{"script_name": "run.py"}'),
        step("Final Answer", '{"final_answer": "Done."}'),
    ]


AGENTS = {"mini-swe-agent": mini, "aider": aider, "mlagentbench": researcher}


class Scripted(Endpoint):
    """Says what is next, whatever it is asked; asides get words that mean nothing."""

    def answer(self, path: str, key: str | None, body: dict[str, object]) -> Reply:
        self.bodies.append(body)
        aside = any(word in str(body["messages"])[:300] for word in ("summarize this partial", "Summarize the obs"))
        return REPLY(text="[Observation]: so.") if aside or not self.replies else self.replies.pop(0)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_that_is_installed_builds_a_task_and_is_scored(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = others.OTHERS[name]
    for program in (os.environ.get(other.variable) or other.program, "bwrap"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no program {program!r} on the PATH ({other.variable} names another)")
    folder = tmp_path / "work"
    with serving(Scripted(OpenAI(), AGENTS[name](look(folder)))) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        words = [
            "other",
            name,
            "cc-ccii",
            str(folder),
            "--core",
            "openai:scripted",
            "--size",
            "tiny",
            "--seconds",
            "40",
        ]
        done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert {body["model"] for body in endpoint.bodies} == {"scripted"}
    heard = str(endpoint.bodies)
    assert "exported.json: No such file" in heard and "run_id" not in heard
    assert "No module named" in heard and "Read-only file system" in heard
    (result,) = results.read(tmp_path / "work.m3bench" / "results.jsonl")
    assert result.value is not None and result.level in ("ran", "valid"), result.reason
    part = result.parts[name]
    assert part.iterations >= 2 and part.tokens > 1000 and part.turns >= 2 and part.done == result.valid


LOGS = {
    "mini-swe-agent": (
        "mini-swe-agent-2.4.6.json",
        Part(done=True, turns=4, actions=4, iterations=2, tokens=4206),
    ),
    "aider": (
        "aider-0.86.2.jsonl",
        Part(done=True, turns=2, actions=2, iterations=2, tokens=3702, estimated=True),
    ),
    "mlagentbench": (
        "mlagentbench",
        Part(done=True, turns=5, actions=5, iterations=2, tokens=10231, estimated=True),
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_effort_is_what_the_log_of_a_real_run_says(name: str, tmp_path: Path) -> None:
    log, part = LOGS[name]
    assert others.OTHERS[name].spent(DATA / log) == part
    # What is not known is not nothing.
    for text in ("", "{}", "[]", '{"event": "launched", "properties": {}}'):
        (tmp_path / "log").write_text(text)
        assert others.OTHERS[name].spent(tmp_path / "log") is None
    assert others.OTHERS[name].spent(tmp_path / "none") is None


def test_tokens_that_some_reply_did_not_tell_are_an_estimate_and_none_are_not_nothing(tmp_path: Path) -> None:
    text, log = (DATA / LOGS["mini-swe-agent"][0]).read_text(), tmp_path / "log"
    for count, told in ((1, "3k estimated"), (0, "-")):  # all of them, with 0
        log.write_text(re.sub(r'"total_tokens": \d+', '"total_tokens": null', text, count=count))
        part = others.OTHERS["mini-swe-agent"].spent(log)
        assert part is not None and part.estimated and part.turns == 4
        assert tables.tokens([SimpleNamespace(parts={"mini-swe-agent": part})]) == told  # type: ignore[list-item]


def test_behind_the_walls_there_are_no_answers_and_nothing_else_can_be_written(tmp_path: Path) -> None:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        pytest.skip("there is no program 'bwrap' on the PATH")
    folder, own = tmp_path / "work", tmp_path / "work.agent"
    for path in ("work", "work.agent", "work.m3bench", "before", "before.m3bench"):
        (tmp_path / path).mkdir()
        (tmp_path / path / "told").write_text("answer")
    (tmp_path / "replica.truth.json").write_text("answer")

    def said(command: str) -> str:
        call = [*others._walls(bwrap, folder, own), "sh", "-c", command]
        done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr

    everywhere = said("cat */told *.truth.json; umount work.m3bench; cat work.m3bench/told")
    assert everywhere.count("answer") == 2, everywhere
    assert "Read-only" in said("touch /usr/touched") and not said("touch work/a work.agent/b")
    assert (folder / "a").exists() and (own / "b").exists()
    assert not said(f"ls {Path(others.__file__).parent}")
    assert "No module named 'm3bench" in said(f"{sys.executable} -c 'import m3bench.replicas'")


@pytest.mark.parametrize(
    ("name", "core", "words"),
    [
        ("cursor", "openai:m", "there is no agent 'cursor'"),
        ("aider", "openai:m", "is not installed"),
        ("mlagentbench", "anthropic:m", "speaks the protocol openai"),
        ("mlagentbench", "nowhere:m", "no model of the catalogue"),
    ],
)
def test_what_cannot_be_run_is_told_before_anything_is_written(
    name: str, core: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere" if name == "aider" else os.environ["PATH"])
    monkeypatch.delenv("M3_AIDER", raising=False)
    monkeypatch.setenv("M3_MLAGENTBENCH", shutil.which("sh") or "")
    done = CliRunner().invoke(app, ["other", name, "cc-ccii", str(tmp_path / "work"), "--core", core])
    assert done.exit_code == 2 and words in done.output, done.output
    assert not list(tmp_path.iterdir())


def test_a_benchmark_folder_holds_the_workspace_and_the_prompt(tmp_path: Path) -> None:
    folder, own = tmp_path / "work", tmp_path / "work.agent"
    (folder / "data").mkdir(parents=True)
    own.mkdir()
    (folder / "PROMPT.md").write_text("Build it.")
    mlagentbench.lay_out(folder, own)
    benchmark = own / "benchmarks" / mlagentbench.TASK
    assert (benchmark / "env" / "data").is_dir()
    assert (benchmark / "scripts" / "research_problem.txt").read_text() == "Build it."
    compile((own / "start.py").read_text(), "start.py", "exec")
