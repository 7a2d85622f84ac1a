"""Fields of cervical smears, two readers, a student and an adjudication; several findings per field."""

from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter

from bench.strangers import draw
from bench.strangers.build import Families
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "citologia_campos_dois_leitores": "Campos fotografados de lâminas de Papanicolau, de dois microscópios, com uma "
    "parte digitalizada de novo por falta de foco. Duas citologistas leram cada campo sem ver a leitura da outra, e a "
    "chefe decidiu onde discordaram. Num campo pode haver mais de um achado.",
}

CODES = {1: "NILM", 2: "LSIL", 3: "HSIL", 4: "Candida", 5: "Trichomonas", 9: "insatisfatório"}
SHORT = {1: "Neg", 2: "LSIL", 3: "HSIL", 4: "Cand", 5: "Trich", 9: "Insat"}
LONG = {1: "NILM", 2: "LSIL", 3: "HSIL", 4: "Candida sp.", 5: "Trichomonas vaginalis", 9: "insatisfatório"}
# folder, size, suffix, tint, sharpness
SCOPES = (
    ("lote1_olympus", (168, 224), "jpg", (1.0, 0.97, 0.93), 0.8),
    ("lote2_leica", (192, 192), "png", (0.95, 1.0, 1.04), 0.5),
)
AGAIN = ("redigitalizadas", (192, 192), "tif", (1.0, 1.0, 1.0), 0.4)
PINK, BLUE = (232, 168, 178), (150, 196, 200)


def _cell(rng: Any, rgb: np.ndarray, at: Any, kind: str, tones: Any) -> None:
    """Draws one cell into the picture: normal, low or high (grade), or white (neutrophil)."""
    top, start = (max(0, int(v) - 42) for v in at)
    rgb = rgb[top : int(at[0]) + 42, start : int(at[1]) + 42]  # a view
    size = rgb.shape[:2]
    if 0 in size:
        return
    y, x = np.mgrid[: size[0], : size[1]].astype(float)
    y, x = y + top - at[0], x + start - at[1]
    turn, f = np.arctan2(y, x), rng.uniform(0, 6.28, 4)
    if kind == "white":
        dark = np.zeros(size, bool)
        for k in range(3):
            dark |= np.hypot(y - 2.2 * np.sin(f[0] + 2.1 * k), x - 2.2 * np.cos(f[0] + 2.1 * k)) < 1.8
        rgb[dark] = (88, 62, 118)
        return
    big, core = {"normal": (27, 3.6), "low": (25, 8.2), "high": (11.5, 8.0)}[kind]
    big, core = big * rng.uniform(0.8, 1.15), core * rng.uniform(0.88, 1.15)
    rough = 0.12 if kind == "normal" else 0.08
    reach = big * (1 + rough * np.cos(2 * turn + f[0]) + rough * np.cos(5 * turn + f[1]) * 0.8)
    far = np.hypot(y, x)
    veil = np.clip((reach - far) / 2, 0, 1) * (0.62 if kind != "high" else 0.7)
    tone = np.array(tones[int(rng.integers(2))]) + rng.normal(0, 6, 3)
    if kind == "low" and rng.random() < 0.6:  # halo around the nucleus
        veil = veil * (1 - 0.6 * np.exp(-(((far - core - 5) / 3.2) ** 2)))
    rgb[:] = rgb * (1 - veil[..., None]) + tone * veil[..., None]
    wave = 0.03 if kind == "normal" else 0.13
    off = rng.uniform(-0.1, 0.1, 2) * big if kind != "high" else (0, 0)
    edge = core * (1 + wave * np.cos(3 * turn + f[2]) + wave * np.cos(2 * turn + f[3]))
    cover = np.clip(edge - np.hypot(y - off[0], x - off[1]), 0, 1) * (0.85 if kind == "normal" else 0.92)
    ink = {"normal": (98, 70, 128), "low": (84, 56, 112), "high": (52, 32, 84)}[kind]
    grain = gaussian_filter(rng.normal(0, 1, size), 0.9) * (10 if kind == "normal" else 34)
    rgb[:] = rgb * (1 - cover[..., None]) + (np.array(ink) + grain[..., None]) * cover[..., None]


def _yeast(rng: Any, rgb: np.ndarray) -> None:
    """Threads of Candida with spores."""
    h, w = rgb.shape[:2]
    sheet = Image.fromarray(draw.u8(rgb))
    pen = ImageDraw.Draw(sheet)
    for _ in range(int(rng.integers(4, 8))):
        y, x, turn = rng.uniform(0.15, 0.85) * h, rng.uniform(0.15, 0.85) * w, rng.uniform(0, 6.28)
        tone = tuple(int(v) for v in np.array((158, 84, 92)) + rng.integers(-14, 14, 3))
        for _ in range(int(rng.integers(5, 10))):
            to = (x + 9 * np.cos(turn), y + 9 * np.sin(turn))
            pen.line((x, y, *to), fill=tone, width=2)
            if rng.random() < 0.35:
                pen.ellipse((x - 2, y - 2, x + 2, y + 2), fill=tone)
            (x, y), turn = to, turn + rng.normal(0, 0.28)
    rgb[:] = np.asarray(sheet, float)


def _flagellates(rng: Any, rgb: np.ndarray) -> None:
    """Pear-shaped grey-green Trichomonas with a slim nucleus and red grains."""
    size = rgb.shape[:2]
    y, x = np.mgrid[: size[0], : size[1]].astype(float)
    for _ in range(int(rng.integers(7, 13))):
        at, turn = rng.uniform(0.06, 0.94, 2) * size, rng.uniform(0, 6.28)
        u = (x - at[1]) * np.cos(turn) + (y - at[0]) * np.sin(turn)
        v = (y - at[0]) * np.cos(turn) - (x - at[1]) * np.sin(turn)
        pear = np.hypot(u / 7.5, v / (4.6 - 0.28 * u)) < 1
        rgb[pear] = rgb[pear] * 0.2 + np.array((132, 152, 138)) * 0.8
        rgb[np.hypot((u + 2) / 2.6, v / 1.1) < 1] = (92, 84, 122)
        for _ in range(5):
            p = rng.uniform(-3.5, 3.5, 2)
            rgb[np.hypot(u - p[0] - 1, v - p[1] * 0.7) < 0.8] = (186, 78, 86)


def _field(rng: Any, scope: Any, found: list[int], tones: Any, blurred: float = 0.0) -> np.ndarray:
    _, size, _, tint, sharp = scope
    rgb = np.empty((*size, 3))
    rgb[:] = np.array((240, 238, 236)) + rng.normal(0, 3, 3)
    rgb += gaussian_filter(rng.normal(0, 1, size), 14)[..., None] * 90
    if 9 in found:  # blood, hardly a cell
        for _ in range(90):
            rgb[draw.ball(size, rng.uniform(0, 1, 2) * size, rng.uniform(3, 5))] = (214, 120, 96)
    cells = ["normal"] * int(rng.integers(6, 11) if 9 not in found else 2)
    cells += ["low"] * int(rng.integers(3, 6)) if 2 in found else []
    cells += ["high"] * int(rng.integers(5, 11)) if 3 in found else []
    cells += ["white"] * int(rng.integers(0, 12) + 14 * (5 in found))
    if 3 in found:  # together in a group
        mid = rng.uniform(0.35, 0.65, 2) * size
    for kind in cells:
        at = mid + rng.normal(0, 22, 2) if kind == "high" else rng.uniform(0.06, 0.94, 2) * size
        _cell(rng, rgb, at, kind, tones)
    if 4 in found:
        _yeast(rng, rgb)
    if 5 in found:
        _flagellates(rng, rgb)
    y, x = np.mgrid[: size[0], : size[1]]
    dim = 1 - rng.uniform(0.02, 0.14) * np.hypot(y / size[0] - 0.5, x / size[1] - 0.5) * 2
    rgb = gaussian_filter(rgb, (sharp + blurred, sharp + blurred, 0)) * tint * rng.uniform(0.88, 1.04) * dim[..., None]
    return draw.u8(rgb + rng.normal(0, 3, rgb.shape))


@family(
    "citologia_campos_dois_leitores", "diagnosis", 2,
    "Quero um modelo que diga o que há em cada campo de citologia: lesão e microrganismos, podem ser vários juntos.",
    notes="Several labels per field: exactly one of NILM, LSIL, HSIL and possibly Candida and Trichomonas. Reader A's "
    "export has codes (sheet Legenda) and a row per click on 'save', the last one counts; reader B's table has crosses "
    "and writes L231-3 for L0231_T03. Where both give the same set it counts, where they differ the adjudication does; "
    "the adjudication also overrules two who agree. Fields read by one reader, with differing readings and no "
    "decision, 'insatisfatório' or 'descartar' are not used; the student's readings never count. A field in "
    "'redigitalizadas' replaces the blurred one. Slide -> requisition -> prontuario (patient) in the XML; a patient "
    "can have several. Controls of the staining (L9...) and captures with arrows are not used.",
)  # fmt: skip
def smears(b: Build) -> None:
    rng, why = b.rng, {}
    b.truth["left_out_why"] = why
    slides = [int(v) for v in np.sort(rng.choice(np.arange(101, 899), 60, replace=False))]
    people = [f"{int(v):06d}" for v in rng.choice(np.arange(10000, 99999), 46, replace=False)]
    owners = [*people, *[str(v) for v in rng.choice(people, 14, replace=False)]]
    owners = [owners[int(i)] for i in rng.permutation(60)]
    reads: dict[str, list[Any]] = {"A": [], "B": [], "E": [], "final": []}
    for slide, owner in zip(slides, owners, strict=True):
        lesion = int(rng.choice([1, 2, 3], p=(0.46, 0.3, 0.24)))
        germs = [g for g, p in ((4, 0.24), (5, 0.22)) if rng.random() < p]
        scope = SCOPES[int(slide > 480)]
        tones = [np.array(t) * rng.uniform(0.93, 1.05) for t in (PINK, BLUE)]
        for tile in range(1, int(rng.choice([1, 2, 3], p=(0.2, 0.5, 0.3))) + 1):
            found = [lesion if rng.random() < 0.82 else 1] + [g for g in germs if rng.random() < 0.85]
            _tile(b, owner, f"L{slide:04d}", tile, scope, found if rng.random() > 0.05 else [9], tones, reads)
    for k in range(4):
        path = f"imagens/{SCOPES[k % 2][0]}/L90{10 + k}_T01.{SCOPES[k % 2][2]}"
        b.picture(path, _field(rng, SCOPES[k % 2], [1], (PINK, BLUE)))
        why[path] = "control of the staining"
    b.truth["left_out"] = sorted(why)
    _tables(b, slides, owners, reads)


def _tile(b: Build, owner: str, slide: str, tile: int, scope: Any, found: list[int], tones: Any, reads: Any) -> None:
    rng, why = b.rng, b.truth["left_out_why"]
    name = f"{slide}_T{tile:02d}"
    redone = rng.random() < 0.12
    path = f"imagens/{scope[0]}/{name}.{scope[2]}"
    how = {"quality": 93} if scope[2] == "jpg" else {}
    pixels = _field(rng, scope, found, tones, 3.2 if redone else 0.0)
    b.picture(path, pixels, **how)
    if redone:
        why[path] = "blurred, scanned again"
        path = b.picture(
            f"imagens/{AGAIN[0]}/{name}.{AGAIN[2]}", _field(rng, AGAIN, found, tones), compression="tiff_lzw"
        )
    elif rng.random() < 0.1:
        image = Image.fromarray(pixels)
        pen = ImageDraw.Draw(image)
        x, y = (int(v) for v in rng.uniform(40, 130, 2))
        pen.line((x - 30, y - 30, x, y), fill=(20, 20, 20), width=2)
        pen.polygon([(x, y), (x - 7, y - 2), (x - 2, y - 7)], fill=(20, 20, 20))
        why[b.picture(f"imagens/capturas/{name}_seta.png", np.asarray(image))] = "capture with an arrow"

    def other(codes: list[int]) -> list[int]:
        """A reading that differs from the given one."""
        if 9 in codes:
            return [1]
        if rng.random() < 0.5:
            return [int(rng.choice([c for c in (1, 2, 3) if c != codes[0] and abs(c - codes[0]) < 2])), *codes[1:]]
        germ = int(rng.choice([4, 5]))
        return sorted({*codes} ^ {germ})

    turn = rng.random()
    first, second, final = found, found, None
    if turn < 0.26:  # they differ
        first, second = (other(found), found) if rng.random() < 0.5 else (found, other(found))
        final = found if rng.random() < 0.8 else None
    elif turn < 0.31:  # both wrong, seen by the chief
        first = second = other(found)
        final = found
    result = final if final else found if first == second == found else None
    alone = turn > 0.96
    if final and rng.random() < 0.06:
        final, result = "descartar", None
    stamp = np.datetime64("2019-05-06T08:00") + int(rng.integers(0, 200000))
    clicks = [(first, stamp)]
    if rng.random() < 0.15:
        clicks.insert(0, (other(first), stamp - int(rng.integers(2, 3000))))
    for codes, when in clicks:
        reads["A"].append([f"{name}.{scope[2]}", ";".join(map(str, codes)), "leitora_a", str(when) + ":00"])
    if not alone:
        row = ["x" if c in second else "" for c in CODES]
        reads["B"].append([f"{slide[0]}{int(slide[1:])}-{tile}", *row, b.pick("", "", "", "bom", "fundo inflamatório")])
    if rng.random() < 0.8:
        mine = other(found) if rng.random() < 0.4 else found
        reads["E"].append([name, " + ".join(SHORT[c] for c in mine)])
    if final:
        words = final if final == "descartar" else " + ".join(LONG[c] for c in final)
        reads["final"].append([slide, tile, words, b.pick("", "", "revisto com objetiva 40x", "discutido na reunião")])
    if result is None or alone or 9 in result:
        reason = "read once" if alone else "insatisfatório" if result else "no decision or thrown out"
        why[path] = reason
    else:
        b.case(path, patient=owner, label=[CODES[c] for c in result])


def _tables(b: Build, slides: list[int], owners: list[str], reads: dict[str, list[Any]]) -> None:
    rng = b.rng
    clicks = sorted(reads["A"], key=lambda r: r[3])
    b.csv("leituras/leitora_A_export.csv", ["campo", "achados", "usuario", "salvo_em"], clicks)
    mixed = [reads["B"][int(i)] for i in rng.permutation(len(reads["B"]))]
    head = ["Campo", "NILM", "LSIL", "HSIL", "Cândida", "Tricomonas", "Insatisf.", "Obs."]
    b.csv("leituras/leitora_B.csv", head, mixed, sep=";", encoding="cp1252", end="\r\n")
    b.csv("leituras/estudante_treinamento.csv", ["campo", "leitura"], reads["E"], sep=";")
    legend = [["Código", "Achado", "Observação"]]
    more = {
        1: "negativo para lesão intraepitelial ou malignidade",
        2: "lesão de baixo grau",
        3: "lesão de alto grau",
        9: "não avaliável",
    }
    legend += [[k, LONG[k], more.get(k, "somado ao resultado do epitélio")] for k in CODES]
    head = ["Lâmina", "Campo", "Decisão", "Comentário"]
    b.xlsx("adjudicacao_dra_Nogueira.xlsx", {"Decisões": [head, *reads["final"]], "Legenda": legend})
    out = ['<?xml version="1.0" encoding="ISO-8859-1"?>', '<exportacao sistema="SisLab" data="2020-02-11">']
    for slide, owner in sorted(zip(slides, owners, strict=True), key=lambda p: (p[0] * 7919) % 1009):
        place = b.pick("UBS Jardim América", "UBS São José", "Ambulatório de Ginecologia")
        day = np.datetime64("2018-11-05") + int(rng.integers(0, 150))
        out += [
            f'  <requisicao numero="{int(rng.integers(10**6, 10**7))}" coleta="{day}" origem={quoteattr(place)}>',
            f'    <paciente prontuario="{owner}" sexo="F"/>',
            f'    <lamina id="L{slide:04d}" coloracao="Papanicolaou"/>',
            "  </requisicao>",
        ]
    b.text("sislab_requisicoes.xml", "\n".join([*out, "</exportacao>"]) + "\n", "latin-1")
    b.text("LEIA-ME.txt", README)
    b.clutter("windows", under="imagens/lote1_olympus")


README = """Campos de citologia cervical, projeto de concordância

imagens/lote1_olympus, lote2_leica   um arquivo por campo: lâmina e número do campo (L0231_T03)
imagens/redigitalizadas              campos que estavam fora de foco e foram feitos de novo: vale este, não o antigo
imagens/capturas                     prints para aula, com setas, não são do estudo
leituras/                            leitora A (programa, códigos), leitora B (planilha), estudante
adjudicacao_dra_Nogueira.xlsx        decisões e legenda dos códigos
sislab_requisicoes.xml               de quem é cada lâmina (o prontuário é a paciente)

Resultado de referência
- A e B com o mesmo conjunto de achados: vale.
- A e B diferentes: vale a decisão da Dra. Nogueira. Ela também corrigiu alguns em que as duas concordavam; a decisão
  dela prevalece sempre.
- Sem leitura das duas, ou discordância ainda sem decisão: não usar. Insatisfatórios e «descartar» também não.
- No programa da leitora A cada gravação gera uma linha, a última é a que vale.
- A leitora B escreve L231-3 em vez de L0231_T03.
- A estudante leu para treinar, não conta.
- Lâminas L9xxx são controle de coloração.
"""
