"""Where a person has to say, and where nothing can be learnt."""

from bench.strangers import draw
from bench.strangers.build import Families, hexid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


@family(
    "graders_without_verdict", "diagnosis", 2,
    "Is diabetic retinopathy present on the fundus photo, yes or no?",
    notes="10_left.jpeg and 10_right.jpeg; two graders who differ, nobody who settles it: a person says whose word counts.",
    expect="ask",
)  # fmt: skip
def graders(b: Build) -> None:
    rows = []
    for n in range(24):
        for side in ("left", "right"):
            sick = (n + (side == "left" and n % 5 == 0)) % 2 == 1
            path = b.picture(f"photos/{10 + 3 * n}_{side}.jpeg", draw.eye(b.rng, "D" if sick else ""), quality=92)
            differs = (2 * n + (side == "left")) % 6 == 1
            b.case(path, patient=str(10 + 3 * n), label="yes" if sick else "no")
            rows.append([f"{10 + 3 * n}_{side}", "yes" if sick else "no", "yes" if sick != differs else "no", b.pick("Canon", "Topcon")])
    b.csv("grading.csv", ["image", "DR_grader_HM", "DR_grader_LS", "camera"], rows)
    b.text("notes.txt", "Graded independently by HM and LS. Adjudication by the third reader is still pending.\n")


@family(
    "key_is_lost", "diagnosis", 2,
    "Pneumothorax on chest radiographs, yes or no.",
    notes="Pictures got new names when they were made anonymous, the table has the old ones, and the list of both was not sent.",
    expect="infeasible",
)  # fmt: skip
def lost(b: Build) -> None:
    rows = []
    for n in range(40):
        sick = n % 3 == 0
        b.picture(f"export_anon/{hexid(b, 8)}.png", draw.u8(draw.chest(b.rng, ("pneumothorax",) if sick else ())))
        rows.append([7003412 + 37 * n, f"{n % 27 + 1:02d}.{n % 12 + 1:02d}.2020", "ja" if sick else "nein", b.pick("w", "m")])
    b.csv("Pneu_Liste.csv", ["MRN", "Datum", "Pneumothorax", "Geschlecht"], [rows[i] for i in b.rng.permutation(40)], sep=";", encoding="cp1252")
    b.text("mail.txt", "Anbei die Bilder, anonymisiert. Die Zuordnung schicke ich nach.\r\n")
