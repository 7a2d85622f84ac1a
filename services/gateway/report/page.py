"""A report as one HTML file: text, tables, drawings and pictures of cases."""

from itertools import chain
from pathlib import Path

from services.gateway.report import diagnosis_figures, mask_figures, training_figures
from services.gateway.report.cases import TITLE as CASES
from services.gateway.report.facts import Facts
from services.gateway.report.gallery import gallery
from services.gateway.report.sections import sections, title
from shared import pages
from shared.pages.svg import Figure

TEMPLATE = Path(__file__).with_suffix(".html")


def page(facts: Facts) -> str:
    return pages.page(
        TEMPLATE,
        title=title(facts),
        sections=sections(facts),
        figures=drawings(facts),
        cases=CASES,
        gallery=gallery(facts),
    )


def drawings(facts: Facts) -> list[Figure]:
    made = mask_figures.figures(facts) if facts.segmentation else diagnosis_figures.figures(facts)
    return list(chain(made if facts.state.scored else (), training_figures.figures(facts)))
