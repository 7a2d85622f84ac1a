"""Questions as tests ask them."""

from shared.contracts.base import Event
from shared.contracts.questions import DATASET, Option, Question, QuestionAsked


def for_dataset(run_id: str, text: str, cause: Event | None = None, **refused: str) -> QuestionAsked:
    """The Task Manager's question for a dataset; `refused` is why registered ones do not fit, `-` in an id as `_`."""
    options = tuple(Option(value=name.replace("_", "-"), says=why) for name, why in refused.items())
    question = Question(key=DATASET, text=text, options=options, wants="dataset")
    return QuestionAsked.make(run_id=run_id, sender="task_manager", cause=cause, question=question)
