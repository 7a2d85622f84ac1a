"""OCT sections of the macula: a hospital with a Spectralis (XML export), a practice with a Topcon (ICD codes)."""

from datetime import date, timedelta
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from bench.strangers import draw
from bench.strangers.build import Families, hexid, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "oct_makula_klinik_und_praxis": "OCT-Schnitte der Makula aus unserer Augenklinik (Spectralis, exportiert mit "
    "XML) und aus der zuweisenden Praxis (Topcon, JPEG). Die Befunde der Klinik stehen je Auge in einer Tabelle, "
    "die der Praxis als ICD-Diagnosen mit Seite im Auszug der Praxissoftware. Einige Patienten waren in beiden "
    "Häusern.",
}

NAMES = ("unauffällig", "trockene AMD", "feuchte AMD", "diabetisches Makulaödem")
ICD = (None, "H35.31", "H35.30", "H36.0")
OTHER = ("H25.1", "H52.1", "H04.1", "H40.1", "Z96.1", "H02.3")
CLINIC, PRACTICE = (176, 256), (160, 224)


def _bscan(rng: Any, kind: int, size: tuple[int, int], practice: bool, good: bool = True) -> np.ndarray:
    """A horizontal section through the fovea: 0 plain, 1 drusen, 2 fluid under the retina, 3 cysts in it."""
    h, w = size
    y, x = np.mgrid[:h, :w].astype(float)
    col = np.arange(w, dtype=float)
    c = w * rng.uniform(0.42, 0.58)
    base = h * rng.uniform(0.58, 0.68) + rng.uniform(-0.08, 0.08) * (col - c) + rng.uniform(0, 6e-4) * (col - c) ** 2
    thick = h * rng.uniform(0.2, 0.24) * (rng.uniform(1.25, 1.5) if kind == 3 else 1)
    pit = h * rng.uniform(0.08, 0.1) * (rng.uniform(0, 0.35) if kind == 3 else 1)
    pit = pit * np.exp(-(((col - c) / (w * rng.uniform(0.07, 0.1))) ** 2))
    rise, fluid = np.zeros(w), np.zeros(w)
    if kind == 1:
        for _ in range(int(rng.integers(4, 10))):
            at, wide = c + rng.normal(0, w * 0.18), w * rng.uniform(0.012, 0.03)
            rise = np.maximum(rise, h * rng.uniform(0.025, 0.06) * np.exp(-(((col - at) / wide) ** 2)))
    if kind == 2:
        at = c + rng.normal(0, w * 0.06)
        rise = h * rng.uniform(0.05, 0.11) * np.exp(-(((col - at) / (w * rng.uniform(0.06, 0.1))) ** 4))
        rise += np.abs(gaussian_filter(rng.normal(0, 14, w), 3)) * np.exp(-(((col - at) / (w * 0.15)) ** 2))
        shift = at + w * rng.choice([-1, 1]) * rng.uniform(0.05, 0.12)
        fluid = h * rng.uniform(0.08, 0.14) * np.exp(-(((col - shift) / (w * rng.uniform(0.12, 0.18))) ** 4))
    rpe = base - rise
    outer = rpe - fluid
    ilm = outer - thick + pit
    f = (y - ilm) / np.maximum(outer - ilm, 1)
    nerve = 110 + 80 * np.clip(np.abs(x - c) / (w * 0.25), 0, 1)
    stops = [-0.02, 0.03, 0.1, 0.14, 0.3, 0.34, 0.44, 0.47, 0.52, 0.57, 0.8, 0.84, 0.88, 0.93]
    tones = [0, 1, 1, 118, 112, 66, 66, 122, 122, 52, 50, 130, 165, 120]
    out = np.interp(f, stops, tones)
    out = np.where((f > 0.0) & (f < 0.12), nerve, out)
    out[f < 0] = 8
    out[(y >= outer) & (y < rpe)] = 12
    under = y - rpe
    out = np.where((under >= -2) & (under < 3), 225, out)
    out = np.where((under >= 3) & (y < base + 2), 135 if kind == 1 else 95, out)
    deep = np.clip(y - base - 2, 0, None)
    vessels = gaussian_filter(rng.normal(0, 1, size), (2.5, 4)) * 160
    out = np.where((y >= base + 2) & (under >= 3), (125 + vessels) * np.exp(-deep / (h * 0.13)), out)
    if kind == 3:
        for _ in range(int(rng.integers(5, 11))):
            at = int(np.clip(c + rng.normal(0, w * 0.11), 4, w - 5))
            level = ilm[at] + (outer[at] - ilm[at]) * rng.uniform(0.35, 0.68)
            out[draw.ball(size, (level, at), (rng.uniform(0.02, 0.06) * h, rng.uniform(0.012, 0.035) * w))] = 12
        for _ in range(int(rng.integers(4, 10))):
            at = int(np.clip(c + rng.normal(0, w * 0.16), 4, w - 5))
            out[draw.ball(size, (ilm[at] + thick * rng.uniform(0.3, 0.8), at), 1.6)] = 235
    for _ in range(int(rng.integers(1, 5))):  # shadows of vessels
        at = rng.uniform(0, w)
        if abs(at - c) > w * 0.12:
            out *= 1 - 0.5 * np.exp(-(((x - at) / 2.5) ** 2)) * (f > 0.08)
    out = gaussian_filter(out, 0.7)
    grain = gaussian_filter(rng.gamma(3.0, 1 / 3.0, size), 0.5 if practice else 0.35)
    out = out * (0.45 + 0.55 * grain) + np.abs(rng.normal(0, 9 if practice else 4, size))
    if not good:
        out = gaussian_filter(out * 0.22, 2.5) + np.abs(rng.normal(0, 22, size))
    return draw.u8((out * 0.8 + 22 if practice else out) * rng.uniform(0.85, 1.12))


def _fundus(rng: Any, colour: bool) -> np.ndarray:
    """The view from the front that comes with a section: infrared, or in colour. It is no section."""
    view = draw.eye(rng, "", 96).astype(float)
    if colour:
        return draw.u8(view)
    gray = view.mean(2) * 1.3
    gray[47:49, 8:88] = 255  # the line of the section
    return draw.u8(gray)


def _eyes(rng: Any) -> list[int]:
    """What the right and the left eye have."""
    ill = int(rng.choice([0, 1, 2, 3], p=(0.2, 0.27, 0.26, 0.27)))
    eyes = [ill, ill]
    if rng.random() < 0.5:
        eyes[int(rng.integers(2))] = 1 if ill == 2 and rng.random() < 0.6 else 0
    return eyes


def _day(d: date, name: str) -> str:
    return f"<{name}><Date><Year>{d.year}</Year><Month>{d.month}</Month><Day>{d.day}</Day></Date></{name}>"


def _image(number: int, kind: str, quality: float | None, file: str, at: str) -> str:
    told = "" if quality is None else f"<ImageQuality>{quality:.2f}</ImageQuality><NumAve>30</NumAve>"
    return (
        f"<Image><ID>{number}</ID><ImageNumber>{number + 1}</ImageNumber><ImageType><Type>{kind}</Type></ImageType>"
        f"<AcquisitionTime><Time>{at}</Time></AcquisitionTime><OphthalmicAcquisitionContext>{told}"
        f"</OphthalmicAcquisitionContext><ImageData><ExamURL>\\\\HEYEX-SRV\\Export\\{file}</ExamURL></ImageData></Image>\n"
    )


def _clinic_exam(b: Build, who: str, born: int, when: date, eyes: list[int], state: str) -> list[Any]:
    """Writes the XML and TIFF files of one visit to the hospital; the row of the table of findings comes back."""
    rng, row, series = b.rng, [who, when.strftime("%d.%m.%Y")], ""
    single = rng.random() < 0.12
    for n, side in enumerate("RL"):
        if single and n == 1:
            row.append(None)
            continue
        good = rng.random() > 0.07
        front, cut = (f"{hexid(b, 4).upper()}.tif" for _ in range(2))
        b.picture(f"Klinik_Spectralis/{front}", _fundus(rng, False), compression="tiff_lzw")
        path = f"Klinik_Spectralis/{cut}"
        b.picture(path, _bscan(rng, eyes[n], CLINIC, False, good), compression="tiff_lzw")
        quality = rng.uniform(19, 36) if good else rng.uniform(6, 13)
        at = f"{int(rng.integers(8, 16)):02d}:{int(rng.integers(60)):02d}:{rng.uniform(0, 60):06.3f}"
        images = _image(0, "LOCALIZER", None, front, at) + _image(1, "OCT", quality, cut, at)
        series += (
            f"<Series><ID>{n + 1}</ID><Modality>OCT</Modality><Type>Section</Type><Laterality>{side}</Laterality>"
            f"<SeriesUID>{uid(b)}</SeriesUID><NumImages>2</NumImages>\n{images}</Series>\n"
        )
        row.append(eyes[n] if good else 9)
        b.truth["left_out"].append(f"Klinik_Spectralis/{front}")
        if good and state == "in":
            b.case(path, patient=who, label=NAMES[eyes[n]])
        else:
            b.truth["left_out"].append(path)
    body = (
        f"<Patient><ID>{int(rng.integers(2000, 9999))}</ID><LastName>{who}</LastName><FirstNames>anonym</FirstNames>\n"
        f"<Birthdate><Date><Year>{born}</Year><Month>1</Month><Day>1</Day></Date></Birthdate><Sex>{b.pick('M', 'F')}"
        f"</Sex><PatientID>{int(rng.integers(10**6, 10**7))}</PatientID>\n<Study><ID>{int(rng.integers(100, 999))}</ID>"
        f"<StudyUID>{uid(b)}</StudyUID>{_day(when, 'StudyDate')}\n{series}</Study></Patient>"
    )
    b.text(
        f"Klinik_Spectralis/{hexid(b, 4).upper()}.xml",
        '<?xml version="1.0" encoding="iso-8859-1"?>\n<HEDX><SWVersion><Name>Heyex</Name><Version>1.9.10.0</Version>'
        f"</SWVersion>{_day(date(2019, 10, 2), 'ExportDate')}\n<BODY>{body}</BODY></HEDX>\n",
        "latin-1",
    )
    note = "Z. n. IVOM" if 2 in eyes and rng.random() < 0.4 else None
    return [*row, round(float(rng.uniform(0.1, 1.0)), 1), round(float(rng.uniform(0.1, 1.0)), 1), note]


def _practice_exam(b: Build, number: int, true: str, when: date, eyes: list[int], swapped: bool) -> list[list[str]]:
    """Writes the pictures of one visit to the practice; the rows of its diagnoses come back."""
    rng, rows, doubt = b.rng, [], [False, False]
    codes = [ICD[k] for k in eyes]
    day = when.strftime("%d.%m.%Y")
    if codes[0] and codes[0] == codes[1]:
        rows.append(f"{codes[0]}GB")
    else:
        for n, side in enumerate("RL"):
            if codes[n]:
                doubt[n] = not swapped and rng.random() < 0.12
                rows.append(f"{codes[n]}{'V' if doubt[n] else 'G'}{side}")
            elif rng.random() < 0.25:  # looked for and excluded
                rows.append(f"{b.pick(*ICD[1:3])}A{side}")
    if 3 in eyes:
        rows.append("E11.30G")
    rows += [f"{code}G{b.pick('R', 'L', 'B')}" for code in rng.choice(OTHER, int(rng.integers(1, 3)), replace=False)]
    clock = f"{int(rng.integers(8, 18)):02d}{int(rng.integers(60)):02d}"
    for n, side in enumerate("RL"):
        shown = "LR"[n] if swapped else side
        stem = f"Praxis_Topcon/{number}_{when:%Y%m%d}_{clock}{int(rng.integers(10, 60))}_{shown}"
        path = f"{stem}_OCT.jpg"
        b.picture(path, _bscan(rng, eyes[n], PRACTICE, True), quality=92)
        if not doubt[n]:
            b.case(path, patient=true, label=NAMES[eyes[n]])
        else:
            b.truth["left_out"].append(path)
        if rng.random() < 0.6:
            b.picture(f"{stem}_FARBE.jpg", _fundus(rng, True), quality=88)
            b.truth["left_out"].append(f"{stem}_FARBE.jpg")
        if rng.random() < 0.07:
            b.raw(f"{stem}_OCT - Kopie.jpg", b.at(path).read_bytes())
            b.truth["left_out"].append(f"{stem}_OCT - Kopie.jpg")
    order = rng.permutation(len(rows))
    return [[str(number), day, rows[int(i)], b.pick("Dr. Sommer", "Dr. Yildiz")] for i in order]


@family(
    "oct_makula_klinik_und_praxis", "diagnosis", 2,
    "Ein Netz soll am OCT-Schnitt der Makula erkennen, ob das Auge unauffällig ist oder eine trockene AMD, eine "
    "feuchte AMD oder ein diabetisches Makulaödem hat.",
    notes="A case is the OCT section of one eye at one visit. Hospital: Heidelberg XML export; the TIFF names are hex, "
    "the XML says patient (LastName = K number), date, side and which image is LOCALIZER (not used) or OCT; the "
    "finding is the code in column RA (right) or LA (left) of the row of that patient and date, 9 = not gradable, left "
    "out. Practice: number, date and side in the file's name; diagnoses as ICD-10-GM with certainty and side in the "
    "practice's list: G counts, V (suspected) leaves the eye out, A (excluded) or no macular code is unauffällig. "
    "Colour pictures and byte-identical copies (- Kopie) are not used, 9999 is a test eye. A mail says whose sides "
    "were swapped in the file names and which patient withdrew. The sheet Überweisung says which K and practice "
    "numbers are one person (patient in the truth: the K number).",
)  # fmt: skip
def clinic(b: Build) -> None:
    rng, start, table, codes = b.rng, date(2018, 9, 3), [], []
    people = [f"K{n:03d}" for n in range(1, 25)]
    gone = str(rng.choice(people[12:20]))
    both = [str(v) for v in rng.choice([p for p in people if p != gone], 5, replace=False)]
    sent = []
    numbers = [int(v) for v in rng.choice(8000, 18, replace=False) + 1000]
    for who in people:
        born, when, eyes = int(rng.integers(1932, 1966)), start + timedelta(int(rng.integers(0, 250))), _eyes(rng)
        if who in both:
            number = numbers.pop()
            sent.append([number, who])
            before = when - timedelta(int(rng.integers(3, 20)))
            codes += _practice_exam(b, number, who, before, eyes, False)
        for _ in range(2 if rng.random() < 0.25 else 1):
            table.append(_clinic_exam(b, who, born, when, eyes, "out" if who == gone else "in"))
            when += timedelta(int(rng.integers(40, 120)))
            eyes = [2 if k == 1 and rng.random() < 0.3 else k for k in eyes]
    wrong = numbers[3]
    told = start
    for number in numbers:
        when = start + timedelta(int(rng.integers(0, 300)))
        eyes = _eyes(rng)
        if number == wrong:
            told, eyes = when, [2, 0] if rng.random() < 0.5 else [0, 3]
        codes += _practice_exam(b, number, f"P{number}", when, eyes, number == wrong)
    for n, side in enumerate("RLR"):
        path = f"Praxis_Topcon/9999_20181{n}05_07{12 + n}31_{side}_OCT.jpg"
        b.picture(path, _bscan(rng, 0, PRACTICE, True), quality=92)
        b.truth["left_out"].append(path)
    spoilt = f"Praxis_Topcon/{numbers[5]}_20190903_101522_R_OCT.jpg"
    b.broken(spoilt, b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00" + bytes(300))
    codes.append([str(numbers[5]), "03.09.2019", "H25.1GB", "Dr. Sommer"])
    b.clutter("windows", under="Praxis_Topcon")
    _papers(b, table, codes, sent, wrong, told, gone)


def _papers(b: Build, table: list[Any], codes: list[Any], sent: list[Any], wrong: int, told: date, gone: str) -> None:
    rng = b.rng
    head = ["Studiennr.", "Untersuchung am", "RA", "LA", "Visus RA", "Visus LA", "Bemerkung"]
    legend = [["Code (Klinik)", "Befund", "ICD-10-GM (Praxis)"]]
    legend += [[n, name, ICD[n] or "keine Makuladiagnose"] for n, name in enumerate(NAMES)]
    legend.append([9, "nicht beurteilbar", None])
    b.xlsx(
        "Befunde_Makula.xlsx",
        {
            "Befunde Klinik": [head, *(table[int(i)] for i in rng.permutation(len(table)))],
            "Legende": legend,
            "Überweisung": [["Praxis-Nr.", "Studiennr. Klinik"], *sent],
        },
    )
    codes.sort(key=lambda r: (r[1][6:], r[1][3:5], r[1][:2]))
    b.csv("Praxis_Diagnosen.csv", ["PatNr", "Datum", "Diagnose", "Arzt"], codes, sep=";", encoding="cp1252", end="\r\n")
    b.text(
        "LIESMICH.txt",
        "OCT Makula, Klinik und Praxis\r\n\r\n"
        "Klinik_Spectralis: Export aus Heyex, je Untersuchung eine XML-Datei. Als Nachname ist die Studiennr. "
        "eingetragen.\r\nExportiert wurde nur der Schnitt durch die Fovea, dazu das Infrarotbild (Localizer), das "
        "nicht befundet ist.\r\n"
        "Befunde je Auge: RA = rechtes Auge, LA = linkes Auge, Codes im Blatt Legende. Leer = nicht untersucht.\r\n\r\n"
        "Praxis_Topcon: Dateiname = Patientennr._Datum_Uhrzeit_Seite (R/L); _OCT ist der Schnitt, _FARBE das "
        "Fundusfoto.\r\n"
        "9999 ist das Testauge für die Kalibrierung.\r\n"
        "Praxis_Diagnosen.csv: Auszug der Praxissoftware, alle Diagnosen des Tages. Hinter dem ICD-Code stehen "
        "Sicherheit\r\n(G gesichert, V Verdacht, A ausgeschlossen) und Seite (R, L, B = beidseits). Verdachtsdiagnosen "
        "bitte nicht verwenden,\r\ndas Auge dann weglassen. Hat ein Auge keine gesicherte Makuladiagnose und keinen "
        "Verdacht, war die Makula unauffällig.\r\n"
        "Blatt Überweisung: wer aus der Praxis auch bei uns war (gleiche Person).\r\n",
        "cp1252",
    )
    b.text(
        "Mails/AW_ Topcon-Bilder.txt",
        "Von: MFA Praxis Sommer\nGesendet: Donnerstag, 26. September 2019 13:02\nBetreff: AW: Topcon-Bilder\n\n"
        f"Hallo,\nbei Patient {wrong} waren am {told:%d.%m.%Y} am Gerät die Seiten vertauscht: die Bilder mit R sind "
        "vom linken Auge, die mit L vom rechten. Die Dateien habe ich nicht umbenannt. In unseren Diagnosen stimmt die "
        "Seite.\nViele Grüße\n\n---\n"
        "Von: Studiensekretariat\nGesendet: Montag, 30. September 2019 09:15\n\n"
        f"Danke! Zur Info: {gone} hat die Einwilligung zurückgezogen, bitte nicht mehr auswerten. Der Export wird beim "
        "nächsten Mal bereinigt.\n",
    )
