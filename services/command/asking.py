"""Asking at a terminal: the person answers there and then, from elsewhere, or not at all."""

import os
import select
import sys
from collections.abc import Callable

from rich.console import Console

from services.gateway.client import Gateway
from services.gateway.questions import HELP, how
from shared.contracts.questions import Question, QuestionAsked
from shared.errors import UserError

LOOK_SECONDS = 2.0


class Closed(Exception):
    """Nobody answers here: the input has ended, or the question is no longer open."""


def asker(gateway: Gateway, console: Console) -> Callable[[QuestionAsked], None] | None:
    """What `live.follow` hands questions to; None where nobody sits at a terminal."""
    if not (console.is_terminal and sys.stdin.isatty()):
        return None

    def ask(event: QuestionAsked) -> None:
        question = event.question

        def still_open() -> bool:
            return gateway.question(event.run_id) == question

        if question.wants == "dataset":
            console.print(f"  {HELP}", markup=False, highlight=False)
        try:
            while still_open():
                console.print(f"[bold]{prompt(question)}[/] ", end="", highlight=False)
                value = chosen(_line(still_open), question)
                if value is None:
                    continue
                try:
                    gateway.answer(event.run_id, question.key, value)
                    return
                except UserError as error:
                    console.print(str(error), style="red", markup=False, highlight=False)
        except Closed:
            console.print()
            if still_open():
                console.print(how(event.run_id, question), markup=False, highlight=False)

    return ask


def prompt(question: Question) -> str:
    """What stands before the cursor; without square brackets, which rich would read as markup."""
    count = len(question.options)
    what = {"dataset": f"dataset, or 1-{count}", "text": "your answer"}.get(question.wants, f"1-{count}")
    return what + (f" (Enter: {question.default})" if question.default else "") + ":"


def chosen(line: str, question: Question) -> str | None:
    """The answer that a line stands for: a number, a value, or Enter for the default. None where it says nothing."""
    said = line.strip()
    if not said:
        return question.default
    if question.wants != "text" and said not in question.values and said.isdecimal():
        number = int(said)
        return question.values[number - 1] if 1 <= number <= len(question.options) else said
    return said


def _line(still_open: Callable[[], bool]) -> str:
    """A line from the terminal. Raises Closed at its end, or when the question is answered from elsewhere."""
    said = b""
    while not said.endswith(b"\n"):
        ready, _, _ = select.select([sys.stdin], [], [], LOOK_SECONDS)
        if not ready:
            if not still_open():
                raise Closed
            continue
        # Past Python's own buffer, of which `select` knows nothing.
        part = os.read(sys.stdin.fileno(), 4096)
        if not part:
            raise Closed
        said += part
    return said.split(b"\n")[0].decode(errors="replace")
