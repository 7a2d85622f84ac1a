"""Volumes: a PACS export with a list of letters, two readers' organs, contours by number, four sequences of three houses."""

import numpy as np

from bench.strangers import draw
from bench.strangers.build import Families, dicom, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


@family(
    "pacs_with_letters", "diagnosis", 3,
    "Sort a chest CT into free lung, consolidation or pleural effusion.",
    notes="No suffixes; a text with pipes, key AccessionNumber, letters with a legend at its end; localizer and coronal reformats.",
)  # fmt: skip
def pacs(b: Build) -> None:
    rows = []
    for n in range(36):
        first = n - (n % 11 == 5)
        order, letter, shape = 20310699 + 1373 * n, "NKE"[first % 3], (36, 32, 8)
        scan = draw.lung_ct(b.rng, letter == "K", shape)
        if letter == "E":
            scan[:, 22:, :3] = 20
        tags = {"PatientID": str(4505009 + 817 * first), "AccessionNumber": str(order), "StudyInstanceUID": uid(b),
                "StudyDescription": "CT Thorax", "FrameOfReferenceUID": uid(b), "PixelSpacing": [3.0, 3.0],
                "RescaleSlope": 1, "RescaleIntercept": -1024, "StudyDate": f"2021{n % 12 + 1:02d}{n % 27 + 1:02d}"}  # fmt: skip
        base = f"EXPORT/DICOM/PA{n // 6:03d}/ST{n % 6:03d}"
        planes = [("SE001", "Thorax 5.0 B60f", scan, [1, 0, 0, 0, 1, 0], ["ORIGINAL", "PRIMARY", "AXIAL"]),
                  ("SE000", "Topogramm", scan.mean(1, keepdims=True).swapaxes(1, 2), [1, 0, 0, 0, 0, -1], ["ORIGINAL", "PRIMARY", "LOCALIZER"])]
        planes += [("SE002", "COR MPR", scan.swapaxes(1, 2)[..., ::6], [1, 0, 0, 0, 0, -1], ["DERIVED", "SECONDARY", "MPR"])] * (n % 3 == 0)
        axial = []
        for folder, said, array, turned, kind in planes:
            series = {"SeriesInstanceUID": uid(b), "SeriesDescription": said, "ImageOrientationPatient": turned, "ImageType": kind,
                      "SeriesNumber": int(folder[2:])}  # fmt: skip
            names = b.rng.permutation(array.shape[2])
            for k in range(array.shape[2]):
                pixels = np.clip(np.round(array[..., k].T) + 1024, 0, 4095).astype(np.uint16)
                place = [-54, -48, 5.0 * k] if folder == "SE001" else [-54, -48 + 18.0 * k, 40]
                path = dicom(b, f"{base}/{folder}/IM{names[k]:05d}", pixels, "CT", **tags, **series, ImagePositionPatient=place,
                             InstanceNumber=array.shape[2] - k, SliceThickness=5.0)  # fmt: skip
                axial += [path] * (folder == "SE001")
        if n == 8:  # the letter was forgotten
            b.truth["left_out"] += axial
        else:
            b.case(axial, patient=str(4505009 + 817 * first), label=letter)
        rows.append(f"  {order} | {letter if n != 8 else ' '} | {b.pick('Lo', 'Be', 'Kr')} | {b.pick('stat.', 'amb.')}")
    lines = ["Auftragsnr | Bef. | Arzt | Status", *(rows[i] for i in b.rng.permutation(36)), "  20999999 | N | Lo | amb.",
             "", "N = frei   K = Konsolidierung / Infiltrat   E = Erguß"]  # fmt: skip
    b.text("Auswertung Thorax.txt", "\r\n".join(lines), "cp1252")
    b.text("EXPORT/README.TXT", "This medium was created by the PACS export station.\r\n")
    b.text("EXPORT/AUTORUN.INF", "[autorun]\r\nopen=VIEWER.EXE\r\n")


def _abdomen(b: Build, shape: tuple[int, int, int], organs: dict[str, tuple[float, float]]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A scan with organs at (x, y), brighter than what is around them."""
    scan = b.rng.normal(90, 12, shape)
    scan[draw.ball(shape, (shape[0] / 2, shape[1] / 2, shape[2] / 2), (shape[0] * 0.46, shape[1] * 0.44, 99))] += 120
    drawn = {}
    for name, (x, y) in organs.items():
        drawn[name] = draw.ball(shape, draw.near(b.rng, x, y, shape[2] / 2, by=1), (4.5, 4, shape[2] * 0.3))
        scan[drawn[name]] += 90
    return scan, drawn


@family(
    "organs_of_two_readers", "organ_segmentation", 3,
    "Outline the right kidney, the left kidney and the spleen in an MR scan of the abdomen.",
    notes="A file an organ; half the scans by each of two readers with own names and values; a third reader again for a few.",
    expect="ask",
)  # fmt: skip
def organs(b: Build) -> None:
    names = {"HM": ("ren_dex", "ren_sin", "lien"), "Anna": ("NiereRe", "NiereLi", "Milz")}
    places = {"right kidney": (10.0, 20.0), "left kidney": (26.0, 20.0), "spleen": (28.0, 10.0)}
    for n in range(30):
        scan, drawn = _abdomen(b, (36, 30, 12), places)
        who, value = ("HM", 1) if n % 2 else ("Anna", 255)
        path = b.itk(f"Projekt/bilder/serie{1 + n // 20}/{n + 3:02d}{'a' * (n % 7 == 2)}.{'nrrd' if n < 20 else 'mha'}", scan.astype(np.int16))
        for (name, mask), file in zip(drawn.items(), names[who], strict=True):
            if n == 4 and name == "left kidney":  # removed, so nothing is marked
                drawn[name] = np.zeros_like(mask)
                continue
            b.itk(f"Projekt/umrisse/{who}/{n + 3:02d}/{file}.nrrd", mask.astype(np.uint8) * value)
            if n % 8 == 1:
                b.itk(f"Projekt/umrisse/zweitleser/{n + 3:02d}/{file}.nrrd", mask.astype(np.uint8))
        b.case(path, patient=f"{n + 3:02d}", mask=drawn)
    b.text("Projekt/Notiz.md", "Umrisse von HM und Anna sind die gültigen, der Zweitleser war nur für die Übereinstimmung.\n"
                               "Wenn ein Organ fehlt, ist es entfernt worden.\n")  # fmt: skip


@family(
    "contours_by_number", "anomaly_detection", 3,
    "Please mark the liver lesions in a CT scan so that I can measure how much tumour there is.",
    notes="UTF-16 list: code of the scan -> number of the contour file; old contours beside them; one patient twice; healthy ones.",
)  # fmt: skip
def contours(b: Build) -> None:
    rows = []
    for n in range(30):
        code = f"{'ABDFHKLMNPRW'[n % 12]}{'KLMNTW'[n % 6]}{15 + 2 * n}"
        code, person = (f"{rows[4][0]}_2", rows[4][0]) if n == 29 else (code, code)
        scan, drawn = _abdomen(b, (36, 30, 12), {"liver": (12.0, 14.0)})
        lesion = draw.ball(scan.shape, draw.near(b.rng, 12, 14, 6, by=1), (2.2, 2.2, 2.0)) & drawn["liver"] & (n % 4 != 3)
        scan[lesion] -= 70
        path = b.nifti(f"CT_Abdomen/{2018 + n % 5}/{code}_{('pv', 'PV_3mm', 'portalven')[n % 3]}.nii.gz", scan)
        marked = np.where(lesion, 2, drawn["liver"]).astype(np.uint8)
        number = 4 + 2 * n - n % 3
        name = f"{number}.nii.gz" if number % 2 else f"kontur{number:03d}_LK.nii.gz"
        b.nifti(f"Konturen/fertig/{name}", marked, dtype=np.uint8)
        if n % 4 == 0:
            b.nifti(f"Konturen/alt_nicht_benutzen/{name}", marked > 0, dtype=np.uint8)
        b.case(path, patient=person, mask={"Leber": drawn["liver"], "Herd": lesion})
        rows.append([code, number, f"{2018 + n % 5}-0{n % 9 + 1}-11", "wm"[n % 2], "3,0", b.pick("", "Port", "adipös")])
    header = ["Kürzel", "Kontur-Nr", "CT vom", "Geschl.", "Schichtdicke", "Bemerkung"]
    lines = ["\t".join(map(str, row)) for row in (header, *(rows[i] for i in b.rng.permutation(30)))]
    b.text("Zuordnung.txt", "\r\n".join(lines) + "\r\n", "utf-16")
    b.text("info.txt", "Konturen: 1 = Leber, 2 = Herd.\r\nWelche Kontur zu welchem CT gehört steht in Zuordnung.txt.\r\n")


_HOUSES = {
    "HausA/Pat_{n}/ax_{s}.nii.gz": ("T1_nativ", "T1_KM", "T2", "FLAIR"),
    "HausB/{n}_MRT/nifti/{s}.nii.gz": ("s03_t1_se_tra", "s07_t1_se_tra_gd", "s02_t2_tse_tra", "s04_tirm_tra_dark-fluid"),
    "extern/CD {n}/{s}.nii.gz": ("T1 pre", "T1 post", "T2", "FLAIR"),
}


@family(
    "grades_of_three_houses", "diagnosis", 3,
    "From the MR of the head I want to know before surgery whether the tumour is grade II or grade IV.",
    notes="Four sequences named in three ways; a workbook with title rows, P0123 is folder 123, grades in several spellings.",
)  # fmt: skip
def grades(b: Build) -> None:
    rows = []
    for n in range(36):
        number, high, shape = 102 + 5 * n, n % 2 == 1, (24, 28, 8)
        template = tuple(_HOUSES)[n // 2 % 3]
        spot, files = draw.ball(shape, draw.near(b.rng, 10, 14, 4), (4, 4, 2)), []
        for place, sequence in enumerate(_HOUSES[template]):
            scan = draw.brain(b.rng, 0.1, shape)
            scan[spot] *= 1.4 if place == 1 and high else 0.8
            files.append(b.nifti(template.format(n=number, s=sequence), scan))
        b.case(files, patient=str(number), label="IV" if high else "II", channels=4)
        grade = b.pick("IV", "°IV", "4", 4) if high else b.pick("II", "°II", "2", 2)
        rows.append([f"P{number:04d}", f"{1940 + n}-01-01", "wm"[n % 3 // 2], ("Haus A", "Haus B", "extern")[n // 2 % 3], grade, "unbek."])
    rows.append(["P0999", "1950-01-01", "w", "Haus A", "II", "unbek."])
    b.xlsx("Patientenliste.xlsx", {
        "Patienten": [["Hirntumoren", *[None] * 5], ["Stand 2022", *[None] * 5], [None] * 6,
                      ["Pat.-ID", "geb.", "Geschl.", "Bildgebung", "WHO-Grad", "OP"], *(rows[i] for i in b.rng.permutation(37))],
        "Legende": [["WHO-Grad", "laut Neuropathologie"], ["OP", "Datum"]],
    })  # fmt: skip
    b.text("bitte lesen.txt", "Die Nummer im Ordner ist die Pat.-ID aus der Excel-Liste (ohne P und Nullen).\r\n")
