"""Questions at the command: asked at a terminal there and then, shown and answered from anywhere."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from shared.contracts.questions import Option, Question, QuestionAnswered, QuestionAsked
from shared.contracts.runs import RunFinished
from shared.settings import Settings
from tests.cli.conftest import call, on_bus

pytestmark = pytest.mark.usefixtures("gateway")
OPTIONS = (Option(value="class", says="two values, as [asked] for"), Option(value="grade", says="five values"))
COLUMN = Question(key="column", text="Which column is the label?", options=OPTIONS, default="grade")


class Terminal:
    """A command with a terminal of its own."""

    def __init__(self, environment: dict[str, str], *arguments: str) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "services.command.cli", *arguments],
            env=environment | {"TERM": "xterm", "COLUMNS": "120"}, stdin=slave, stdout=slave, stderr=slave,
            # Whoever runs the tests in the background ignores Ctrl-C; who sits at a terminal does not.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        os.close(slave)
        self.seen = ""

    def until(self, pattern: str, seconds: float = 30) -> re.Match[str]:
        """Wait for it in what is shown after the last that was waited for."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < deadline, self.seen
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    part = os.read(self.master, 4096).decode(errors="replace")
                except OSError:
                    raise AssertionError(f"the command ended: {self.seen}") from None
                self.seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part)
        self.seen = self.seen[found.end() :]
        return found

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def ended(self) -> int:
        while self.process.poll() is None:
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.master, 4096).decode(errors="replace")
                except OSError:
                    break
        return self.process.wait(20)


@pytest.fixture
def terminal(environment: dict[str, str]) -> Iterator[Terminal]:
    opened = Terminal(environment, "run", "classify chest CT")
    yield opened
    if opened.process.poll() is None:
        opened.process.kill()
        opened.process.wait(20)
    os.close(opened.master)


def ask(settings: Settings, run_id: str, question: Question) -> None:
    asked = QuestionAsked.make(run_id=run_id, sender="task_manager", cause=None, salt=question.key, question=question)
    on_bus(settings, lambda bus: bus.append(asked))


def finish(settings: Settings, run_id: str) -> None:
    end = RunFinished.make(run_id=run_id, sender="task_manager", cause=None, end="cancelled")
    on_bus(settings, lambda bus: bus.append(end))


def answers(settings: Settings, run_id: str) -> list[QuestionAnswered]:
    events = on_bus(settings, lambda bus: bus.events(run_id))
    return [event for _, event in events if isinstance(event, QuestionAnswered)]


def test_a_terminal_is_asked_there_and_then(terminal: Terminal, own: Settings) -> None:
    run_id = terminal.until(r"run (r\S+)")[1]
    ask(own, run_id, COLUMN)
    terminal.until(r"asks for column:\s+Which column is the label\?")
    terminal.until(r"1  class  two values, as \[asked\] for\s+2  grade  five values \(default\)")
    terminal.until(r"1-2 \(Enter: grade\):")
    terminal.type("3\n")
    terminal.until(r"'3' is none of the options of column")
    terminal.until(r"1-2 \(Enter: grade\):")
    terminal.type("\n")
    terminal.until(r"column answered with grade \(by \w+\)")

    ask(own, run_id, Question(key="unit", text="In which unit?", wants="text"))
    terminal.until("your answer:")
    terminal.type("1\n")  # a number is a word here
    terminal.until(r"unit answered with 1 \(by")

    # Answered from elsewhere, the prompt goes away by itself.
    ask(own, run_id, COLUMN.model_copy(update={"key": "again"}))
    terminal.until("1-2 .Enter: grade.:")
    with_http = on_bus(own, lambda bus: bus.state(run_id)).question
    answer = QuestionAnswered.make(
        run_id=run_id, sender="gateway", cause=with_http, key="again", value="class", by="bert"
    )
    on_bus(own, lambda bus: bus.append(answer))
    terminal.until(r"again answered with class \(by bert\)")
    finish(own, run_id)
    terminal.until("the run ended: cancelled")
    assert terminal.ended() == 1
    assert "column: grade (by" in terminal.seen and "again: class (by bert)" in terminal.seen
    assert [one.value for one in answers(own, run_id)] == ["grade", "1", "class"]


def test_ctrl_d_leaves_the_question_and_ctrl_c_the_run(terminal: Terminal, own: Settings) -> None:
    run_id = terminal.until(r"run (r\S+)")[1]
    ask(own, run_id, COLUMN)
    terminal.until("Enter: grade")
    terminal.type("\x04")
    terminal.until(rf"answer with `m3builder answer {run_id} column class\|grade`")
    terminal.process.send_signal(signal.SIGINT)
    terminal.until("detached; the run goes on")
    assert terminal.ended() == 130
    assert answers(own, run_id) == []
    finish(own, run_id)


def test_a_question_is_shown_and_answered_from_anywhere(environment: dict[str, str], own: Settings) -> None:
    run_id = call(environment, "run", "classify chest CT", "--approve", "split, plan", "--detach").strip()
    state = on_bus(own, lambda bus: bus.state(run_id))
    assert state.requested.approvals == ("plan", "split") and not state.requested.unattended
    assert "asks nothing just now" in call(environment, "answer", run_id)
    ask(own, run_id, COLUMN)
    for command in (("answer", run_id), ("answer", run_id, "column"), ("show", run_id)):
        told = call(environment, *command)
        assert "1  class  two values, as [asked] for" in told and "2  grade  five values (default)" in told
        assert f"m3builder answer {run_id} column class|grade" in told
    assert f"{run_id} asks: Which column is the label?" in call(environment, "runs")
    assert "They are: class" in call(environment, "answer", run_id, "column", "colour", code=2)
    assert f"{run_id}: running" in call(environment, "answer", run_id, "column", "class")
    assert "column: class (by" in call(environment, "show", run_id)
    assert "already" in call(environment, "answer", run_id, "column", "grade", code=2)
    finish(own, run_id)


def test_options_of_a_request_that_cannot_be(environment: dict[str, str]) -> None:
    assert "not lunch" in call(environment, "run", "x", "--approve", "plan,lunch", code=2)
    assert "leave out" in call(environment, "run", "x", "--approve", "plan", "--unattended", code=2)
    assert "no dataset 'nowhere'" in call(environment, "run", "x", "--dataset", "nowhere", code=2)
