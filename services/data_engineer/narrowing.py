"""The limit that a request sets to classes or structures, and the question where it leaves too little."""

from shared.agent.brief import Brief
from shared.contracts.cases import Coverage, Proposal
from shared.contracts.questions import NO, YES, Option, Question
from shared.contracts.rules import Rules
from shared.dataset.tables.column_words import label_likeness
from shared.dataset.tables.narrowing import called, narrowed
from shared.dataset.tables.words import meant, outcomes, says_nothing
from shared.vocabulary.reading import read

KEY, ALL = "only", "all"
"""Key of the question which classes or structures are meant, and the answer that sets no limit."""
CLASSES = "classes"
"""Key of the question whether classes are meant that nobody can read."""
MOST = 60
"""Names that are offered as options."""


def unreadable(brief: Brief, best: Proposal) -> Question | None:
    """Whether classes are meant of which neither the request nor a word that is known says anything (`LF`, `find_3`),
    where the request names a finding, or where they stand in a column that is not called so (`Arzt`): they may be of
    another question. Nobody's silence stands for a yes of such a column."""
    said, names = brief.requested.requirement, best.coverage.label_names
    chosen = {CLASSES, "label"} & brief.answers.keys()
    if best.coverage.task != "diagnosis" or best.coverage.ordered or chosen:
        return None
    wanted = sorted(one.rpartition("/")[2] for one in read(said).concepts("finding"))
    sure, plain = _headed(Rules.model_validate(best.rules)), all(name.isdecimal() for name in names)
    labels = brief.planned.plan.labels if brief.planned else ()
    lost = not sure and bool(labels) and not meant(labels, names)[0]  # numbers, too, may be of another question then
    known = called(said, names) or outcomes(names) or any(map(_readable, names))
    if known or (sure and not wanted) or (plain and not lost):
        return None
    about = f"The request is about {', '.join(wanted)}. " if wanted else ""
    return Question(
        key=CLASSES,
        text=f"{about}What the files tell best is {', '.join(names[:MOST])}: {best.says}. Are these the classes that "
        "are meant?",
        options=(Option(value=YES, says="train on them"), Option(value=NO, says="end the run")),
        default=YES if sure else NO,
    )


def _headed(rules: Rules) -> bool:
    """Whether a header, or the name of an array, calls the classes so (`diagnosis`), or they are folders or names."""
    named = [one.column or one.array or "" for one in rules.label_sources()]
    named += list(rules.label.columns) if rules.label else []
    return not any(named) or any(label_likeness(name) > 0.5 for name in named if name)


def _readable(name: str) -> bool:
    seen = read(name)
    known = any(seen.concepts(kind) for kind in ("finding", "anatomy", "who"))
    return known or says_nothing(name)


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
