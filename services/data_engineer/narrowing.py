"""The limit that a request sets to classes or structures, and the question where it leaves too little."""

from shared.agent.brief import Brief
from shared.contracts.cases import Coverage
from shared.contracts.questions import Option, Question
from shared.dataset.tables.narrowing import called, narrowed

KEY, ALL = "only", "all"
"""Key of the question which classes or structures are meant, and the answer that sets no limit."""
MOST = 60
"""Names that are offered as options."""


def limited(brief: Brief, coverage: Coverage) -> tuple[str, ...] | Question:
    """Names that the request, or a person's answer, limits the run to; a question where that leaves too little."""
    names = coverage.label_names
    answers = [answer for key, answer in brief.answers.items() if key.startswith(KEY)]
    if len(names) < 2 or (answers and answers[-1].strip().lower() == ALL):
        return names
    classes = coverage.task == "diagnosis"
    lesions = coverage.task == "anomaly_detection"
    said = brief.requested.requirement
    wanted = called(answers[-1], names) if answers else narrowed(said, names, masks=not classes, lesions=lesions)
    several = sum(coverage.counts.values()) > coverage.cases
    if len(wanted) > (classes and not several):
        return wanted
    found = f"is {wanted[0]} alone, and a classifier needs two classes" if wanted else "is nothing that its files name"
    what = "classes" if classes else "structures"
    return Question(
        key=f"{KEY}-{len(answers) + 1}" if answers else KEY,
        text=f"The request asks for a part of the dataset, which {found}. Which {what} are to be used? "
        f"Name them with commas between, or say {ALL}.",
        options=(
            *(Option(value=name, says=_cases(coverage.counts.get(name))) for name in names[:MOST]),
            Option(value=ALL, says="use everything"),
        ),
        wants="text",
    )


def _cases(many: int | None) -> str:
    return "" if many is None else f"{many:,} case{'' if many == 1 else 's'}"
