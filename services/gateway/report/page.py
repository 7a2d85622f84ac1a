"""A report as one HTML file: styles and drawings inside, nothing to load, nothing that runs."""

from collections.abc import Iterable
from html import escape
from itertools import chain

from services.gateway.report import diagnosis_figures, gallery, mask_figures, training_figures
from services.gateway.report.blocks import Section, Table, clean
from services.gateway.report.cases import TITLE as CASES
from services.gateway.report.facts import Facts
from services.gateway.report.sections import sections, title
from services.gateway.report.svg import Figure

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""Should anything ever slip through the escaping, a browser neither loads nor runs it."""

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.45 system-ui, sans-serif; color: #222; background: #fff; margin: 0 auto; padding: 1rem;
  max-width: 68rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; border-bottom: 2px solid #ddd; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .7rem 0; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #e4e4e4;
  min-width: 3rem; }
thead + tbody td { overflow-wrap: break-word; } th { overflow-wrap: normal; }
.FAILED { font-weight: bold; border-left: .4rem solid #d55e00; padding-left: .4rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1.5rem; }
figure { margin: 0; break-inside: avoid; }
svg { width: 100%; max-width: 34rem; height: auto; font-family: system-ui, sans-serif; }
figcaption { font-size: .9rem; }
@media print { body { font-size: 11px; max-width: none; } .wide { overflow: visible; } tr { break-inside: avoid; } }
"""


def page(facts: Facts) -> str:
    head = escape(clean(title(facts)))
    more = {CASES: gallery.gallery(facts)}
    body = [_section(one, more.get(one.title, "")) for one in sections(facts)]
    drawn = drawings(facts)
    if drawn:
        # After the result and the score, before the tables that go into detail.
        body.insert(min(2, len(body)), f'<h2>Figures</h2><div class="figures">{"".join(map(_figure, drawn))}</div>')
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        f"<title>{head}</title><style>{_STYLE}{gallery.STYLE}</style></head>\n<body><h1>{head}</h1>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def drawings(facts: Facts) -> list[Figure]:
    made = mask_figures.figures(facts) if facts.segmentation else diagnosis_figures.figures(facts)
    return list(chain(made if facts.state.scored else (), training_figures.figures(facts)))


def _section(one: Section, more: str) -> str:
    return f"<section><h2>{escape(one.title)}</h2>{more}{''.join(map(_block, one.blocks))}</section>"


def _block(block: Table | str) -> str:
    if isinstance(block, str):
        return f"<p>{escape(block)}</p>"
    head = f"<thead><tr>{_cells('th', block.head)}</tr></thead>" if block.head else ""
    rows = "".join(_row(row, labelled=not block.head) for row in block.rows)
    return f'<div class="wide"><table>{head}<tbody>{rows}</tbody></table></div>'


def _row(row: tuple[str, ...], labelled: bool) -> str:
    if labelled:
        return f'<tr><th scope="row">{escape(row[0])}</th>{_cells("td", row[1:])}</tr>'
    return f"<tr>{_cells('td', row)}</tr>"


def _cells(tag: str, cells: Iterable[str]) -> str:
    made = []
    for cell in cells:
        mark = ' class="FAILED"' if tag == "td" and cell in ("FAILED", "NO") else ""
        made.append(f"<{tag}{mark}>{escape(cell)}</{tag}>")
    return "".join(made)


def _figure(figure: Figure) -> str:
    caption = f"<b>{escape(figure.title)}.</b> {escape(figure.caption)}"
    return f"<figure>{figure.svg}<figcaption>{caption}</figcaption></figure>"
