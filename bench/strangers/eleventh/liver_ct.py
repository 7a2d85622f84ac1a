"""CT of livers out of a PACS, metastases as NIfTI of one year and DICOM SEG of the next."""

from typing import Any

import numpy as np
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.pixels import pack_bits
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRLittleEndian
from scipy.ndimage import binary_erosion, gaussian_filter

from bench.strangers import draw
from bench.strangers.build import Families, dicom, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family

CARDS = {
    "scanner_foie_metastases_pacs": "Scanners hépatiques exportés du PACS, tels quels, avec toutes les phases. Les "
    "internes ont contouré le foie, les métastases et les kystes, d'abord avec ITK-SNAP, puis sur la console ; le "
    "tableau de suivi dit sur quelle série et si le radiologue a validé. Ce sont les métastases qui m'intéressent.",
}

SEG = "1.2.840.10008.5.1.4.1.1.66.4"
# liver, spleen, aorta, veins of the liver, kidney, metastasis, metastasis of a neuroendocrine tumour, cyst
TISSUES = ("liver", "spleen", "aorta", "vein", "kidney", "meta", "net", "cyst")
PHASES = {
    "native": (56, 48, 42, 42, 32, 40, 40, 6),
    "art": (74, 120, 310, 82, 150, 50, 150, 8),
    "portal": (112, 122, 150, 165, 190, 60, 78, 8),
    "late": (92, 95, 110, 112, 160, 62, 76, 9),
}
KINDS = ("native", "art", "portal", "late", "thin", "mpr", "top")
# maker, model, soft and hard kernel, names of the series
SCANNERS = {
    "siemens": (
        "SIEMENS", "SOMATOM Definition AS+", "B30f", "B70f",
        ("Abdo SI  5.0  B30f", "Foie Art  5.0  B30f", "Abdo Portal  5.0  B30f", "Foie Tardif  5.0  B30f",
         "Abdo Portal  2.5  B70f", "MPR Cor Portal", "Topogramme  0.6  T20f"),
    ),
    "ge": (
        "GE MEDICAL SYSTEMS", "Revolution EVO", "STANDARD", "BONE",
        ("SANS IV", "TEMPS ARTERIEL", "TEMPS PORTAL", "3 MIN", "PORTAL FIN OS", "Reformatted", "Scout"),
    ),
}  # fmt: skip
TYPES = {"top": ["ORIGINAL", "PRIMARY", "LOCALIZER"], "mpr": ["DERIVED", "SECONDARY", "REFORMATTED"]}
CODES = {"Foie": ("10200004", "Liver"), "Méta": ("14799000", "Neoplasm, Secondary"), "Kyste": ("367643001", "Cyst")}
KEEP = ("SpecificCharacterSet", "PatientID", "PatientName", "PatientSex", "StudyInstanceUID", "AccessionNumber",
        "StudyDate", "FrameOfReferenceUID")  # fmt: skip


def _anatomy(rng: Any, n: int, nz: int) -> dict[str, np.ndarray]:
    """Masks of the upper abdomen; axes run left, back, up."""
    s, c = (n, n, nz), n / 2

    def organ(x: float, y: float, z: float, *r: float, by: float = 1.0) -> np.ndarray:
        mid = draw.near(rng, c + x * n, c + y * n, z * nz, by=by)
        return draw.ball(s, mid, (r[0] * n, r[1] * n, r[2] * nz))

    parts = {"body": organ(0, 0, 0.5, 0.47, 0.37, 3), "inner": organ(0, 0, 0.5, rng.uniform(0.39, 0.43), 0.32, 3)}
    parts["spine"] = organ(0, 0.22, 0.5, 0.085, 0.075, 3, by=0)
    liver = organ(-0.16, -0.02, 0.54, 0.23, 0.25, 0.46) | organ(0.02, -0.13, 0.62, 0.19, 0.12, 0.3)
    parts["liver"] = liver & parts["inner"] & ~parts["spine"]
    parts["spleen"] = organ(0.28, 0.08, 0.65, 0.09, 0.13, 0.25)
    parts["aorta"] = organ(0.035, 0.11, 0.5, 0.035, 0.035, 3, by=0.3)
    parts["air"] = organ(0.24, -0.12, 0.6, 0.08, 0.07, 0.2)
    parts["kidney"] = organ(-0.22, 0.17, 0.12, 0.07, 0.07, 0.24) | organ(0.22, 0.17, 0.12, 0.07, 0.07, 0.24)
    parts["vein"] = np.zeros(s, bool)
    hilum = np.array([c - n * 0.06, c, nz * 0.5])
    for _ in range(6):
        tip = hilum + rng.uniform((-n * 0.24, -n * 0.18, -nz * 0.25), (n * 0.1, n * 0.15, nz * 0.3))
        for t in np.linspace(0, 1, 14):
            parts["vein"] |= draw.ball(s, hilum + t * (tip - hilum), (1.5 - 0.7 * t, 1.5 - 0.7 * t, 0.8))
    for name in ("spleen", "kidney", "air", "aorta"):
        parts[name] &= parts["inner"] & ~parts["liver"] & ~parts["spine"]
    parts["vein"] &= parts["liver"]
    return parts


def _person(rng: Any) -> dict[str, Any]:
    parts = _anatomy(rng, int(rng.choice([56, 64])), int(rng.integers(14, 20)))
    inside = np.argwhere(binary_erosion(parts["liver"], iterations=2))
    kinds = ["Méta"] * int(rng.choice([0, 1, 2, 3, 4], p=(0.3, 0.28, 0.2, 0.14, 0.08)))
    kinds += ["Kyste"] * int(rng.choice([0, 1, 2], p=(0.6, 0.3, 0.1)))
    spots = [(k, inside[int(rng.integers(len(inside)))], rng.uniform(2.4, 6 if k == "Méta" else 4)) for k in kinds]
    net, sex = bool(rng.random() < 0.16), str(rng.choice(["M", "F"]))
    return {"parts": parts, "spots": spots, "net": net, "fat": rng.uniform(-30, 5), "sex": sex}


def _lesions(rng: Any, who: dict[str, Any], change: float) -> list[tuple[str, np.ndarray]]:
    """Lesions of one day, none over another."""
    parts, out = who["parts"], []
    taken = ~parts["liver"]
    for kind, at, r in who["spots"]:
        r = r * (change if kind == "Méta" else 1)
        spot = draw.ball(taken.shape, at, (r, r * rng.uniform(0.8, 1.1), max(1.2, r * 0.8))) & ~taken
        if spot.sum() >= 8:
            out.append((kind, spot))
            taken = taken | spot
    return out


def _volume(who: dict[str, Any], phase: str, lesions: list[tuple[str, np.ndarray]], oil: bool) -> np.ndarray:
    """HU without noise."""
    hu, parts = dict(zip(TISSUES, PHASES[phase], strict=True)), who["parts"]
    out = np.full(parts["body"].shape, -1000.0)
    out[parts["body"]] = 45
    out[parts["inner"]] = -85
    for name in ("spleen", "kidney", "aorta"):
        out[parts[name]] = hu[name]
    out[parts["air"]] = -700
    out[parts["spine"]] = 280
    out[parts["liver"]] = hu["liver"] + who["fat"]
    out[parts["vein"]] = hu["vein"]
    for kind, spot in lesions:
        out[spot] = (
            hu["cyst"] if kind == "Kyste" else 750 if oil else hu["net" if who["net"] else "meta"] + who["fat"] * 0.3
        )
    return gaussian_filter(out, (0.55, 0.55, 0.3))


def _item(**values: Any) -> Dataset:
    out = Dataset()
    for key, value in values.items():
        many = isinstance(value, list) and value and isinstance(value[0], Dataset)
        setattr(out, key, Sequence(value) if many else value)
    return out


def _code(value: str, meaning: str) -> list[Dataset]:
    return [_item(CodeValue=value, CodingSchemeDesignator="SCT", CodeMeaning=meaning)]


def _seg(b: Build, path: str, segments: list[Any], series: dict[str, Any], tags: dict[str, Any], **more: Any) -> None:
    """A binary DICOM SEG with only the slices in which something is marked."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = SEG, uid(b)
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds = FileDataset(None, {}, file_meta=meta, preamble=bytes(128))
    ds.SOPClassUID, ds.SOPInstanceUID, ds.Modality = SEG, meta.MediaStorageSOPInstanceUID, "SEG"
    for key, value in [(k, tags[k]) for k in KEEP] + list(more.items()):
        setattr(ds, key, value)
    ds.SeriesInstanceUID, ds.InstanceNumber, ds.ImageType = uid(b), 1, ["DERIVED", "PRIMARY"]
    ds.Manufacturer, ds.ContentLabel, ds.SegmentationType = "syngo.via", "SEGMENTATION", "BINARY"
    ds.SamplesPerPixel, ds.PhotometricInterpretation, ds.LossyImageCompression = 1, "MONOCHROME2", "00"
    ds.BitsAllocated = ds.BitsStored = 1
    ds.HighBit = ds.PixelRepresentation = 0
    ct = "1.2.840.10008.5.1.4.1.1.2"
    sources = [_item(ReferencedSOPClassUID=ct, ReferencedSOPInstanceUID=s) for s in series["sops"]]
    named = _item(SeriesInstanceUID=series["uid"], ReferencedInstanceSequence=sources)
    ds.ReferencedSeriesSequence = Sequence([named])
    facing = _item(ImageOrientationPatient=series["facing"])
    size = _item(SliceThickness=series["step"][2], PixelSpacing=list(series["step"][:2]))
    shared = _item(PlaneOrientationSequence=[facing], PixelMeasuresSequence=[size])
    ds.SharedFunctionalGroupsSequence = Sequence([shared])
    kinds, frames, groups = [], [], []
    for k, (name, mask) in enumerate(segments):
        what = (
            _code("49755003", "Morphologically Abnormal Structure") if k else _code("123037004", "Anatomical Structure")
        )
        segment = _item(SegmentNumber=k + 1, SegmentLabel=name, SegmentAlgorithmType="MANUAL")
        segment.SegmentedPropertyCategoryCodeSequence = Sequence(what)
        segment.SegmentedPropertyTypeCodeSequence = Sequence(_code(*CODES[name.split()[0]]))
        kinds.append(segment)
        for z in np.flatnonzero(mask.any((0, 1))):
            frames.append(mask[:, :, z].T)
            group = _item(SegmentIdentificationSequence=[_item(ReferencedSegmentNumber=k + 1)])
            group.PlanePositionSequence = Sequence([_item(ImagePositionPatient=series["places"][z])])
            group.FrameContentSequence = Sequence([_item(DimensionIndexValues=[k + 1, int(z) + 1])])
            group.DerivationImageSequence = Sequence([_item(SourceImageSequence=[sources[z]])])
            groups.append(group)
    ds.SegmentSequence, ds.PerFrameFunctionalGroupsSequence = Sequence(kinds), Sequence(groups)
    ds.NumberOfFrames, (ds.Rows, ds.Columns) = len(frames), frames[0].shape
    ds.PixelData = pack_bits(np.stack(frames).astype(np.uint8))
    ds.save_as(b.at(path), enforce_file_format=True)


def _series(b: Build, number: int, kind: str, clean: np.ndarray, step: Any, at: Any, scanner: str) -> dict[str, Any]:
    """A series as it will be written: pictures, places and numbers; slices stand in the order of z."""
    rng, hard, facing = b.rng, kind == "thin", [1, 0, 0, 0, 1, 0]
    if hard:
        clean, step = np.repeat(clean, 2, axis=2), (*step[:2], step[2] / 2)
    noise = gaussian_filter(rng.normal(0, 1, clean.shape), (0, 0, 0) if hard else (0.6, 0.6, 0))
    full = clean + noise / noise.std() * (38 if hard else rng.uniform(9, 15))
    top = at[2] + step[2] * (full.shape[2] - 1)
    if kind == "mpr":
        ys = range(10, full.shape[1] - 10, 3)
        planes, places = [full[:, y, ::-1].T for y in ys], [[at[0], round(at[1] + y * step[1], 3), top] for y in ys]
        facing, step = [1, 0, 0, 0, 0, -1], (step[2], step[0], step[1] * 3)
    elif kind == "top":
        planes, places, facing = [full.max(1)[:, ::-1].T], [[at[0], 0.0, top]], [1, 0, 0, 0, 0, -1]
        step = (step[2], step[0], 0.6)
    else:
        zs = range(full.shape[2])
        planes, places = [full[:, :, z].T for z in zs], [[at[0], at[1], round(at[2] + z * step[2], 3)] for z in zs]
    out = {"number": number, "kind": kind, "planes": planes, "places": places, "facing": facing, "step": step}
    out |= {"uid": uid(b), "sops": [uid(b) for _ in planes], "kernel": SCANNERS[scanner][3 if hard else 2]}
    out |= {"name": SCANNERS[scanner][4][KINDS.index(kind.replace("again", ""))]}
    return out | {"type": TYPES.get(kind, ["ORIGINAL", "PRIMARY", "AXIAL"])}


def _write(b: Build, folder: str, s: dict[str, Any], tags: Any, scanner: str, only: int | None = None) -> list[str]:
    out, n = [], len(s["planes"])
    down = scanner == "siemens" and s["kind"] not in TYPES
    for number, z in enumerate(range(n - 1, -1, -1) if down else range(n)):
        if only is not None and number >= only:
            break
        signed, offset = (np.int16, 0) if scanner == "ge" else (np.uint16, -1024)
        pixels = np.clip(np.round(s["planes"][z]) - offset, -1024 - offset, 3071).astype(signed)
        out.append(f"{folder}/S{s['number']:04d}/IM{number + 1:05d}")
        dicom(
            b, out[-1], pixels, "CT", **tags, SOPInstanceUID=s["sops"][z], SeriesInstanceUID=s["uid"], KVP=120,
            SeriesNumber=s["number"], SeriesDescription=s["name"], ImageType=s["type"], ConvolutionKernel=s["kernel"],
            InstanceNumber=number + 1, ImagePositionPatient=s["places"][z], ImageOrientationPatient=s["facing"],
            PixelSpacing=list(s["step"][:2]), SliceThickness=s["step"][2], RescaleSlope=1, RescaleIntercept=offset,
            RescaleType="HU", Manufacturer=SCANNERS[scanner][0], ManufacturerModelName=SCANNERS[scanner][1],
        )  # fmt: skip
    return out


def _nifti(b: Build, path: str, mask: np.ndarray, s: dict[str, Any]) -> None:
    """As dcm2niix and ITK-SNAP leave it: rows from the back to the front."""
    (sx, sy, sz), (ox, oy, oz) = s["step"], s["places"][0]
    affine = np.diag([-sx, sy, sz, 1.0])
    affine[:3, 3] = (-ox, -(oy + sy * (mask.shape[1] - 1)), oz)
    b.nifti(path, mask[:, ::-1, :], affine, np.uint8)


@family(
    "scanner_foie_metastases_pacs", "anomaly_detection", 3,
    "Délimiter les métastases hépatiques au scanner, pas les kystes ; sans métastase le résultat doit rester vide.",
    notes="Every study has several phases and reconstructions; only the series whose number stands in the table was "
    "drawn on (portal, or arterial for neuroendocrine tumours, or the second of two portal ones). Until 2019 one NIfTI "
    "per lesion, named by the accession number (_meta1, _kyste1, _foie; _corr replaces the file of that name), no "
    "_meta file means no metastasis; from 2020 DICOM SEG with one segment per lesion, the latest ContentDate counts. "
    "Only status 'validé'. Studies in export_pacs_02 replace their torn copies in export_pacs_01. The patient is "
    "the IPP after the merging of identities (second sheet). Chest studies not in the table were exported by mistake.",
)  # fmt: skip
def liver(b: Build) -> None:
    rng, why = b.rng, {}
    b.truth["left_out_why"] = why
    ipps = [f"{int(v)}" for v in rng.choice(np.arange(8100000, 8199999), 56, replace=False)]
    exams, merged, old, start = [], [], ipps[48:], np.datetime64("2018-01-08")
    for ipp in ipps[:48]:
        who = _person(np.random.default_rng(int(rng.integers(2**31))))
        days = [str(start + int(v)) for v in np.sort(rng.integers(0, 1380, 1 if rng.random() < 0.66 else 2))]
        for k, day in enumerate(days):
            name = ipp
            if k < len(days) - 1 and old and rng.random() < 0.45:
                name = old.pop()
                merged.append([name, ipp, days[1]])
            exams.append((day, ipp, name, who, 1.0 if k == 0 else rng.uniform(0.6, 1.5)))
    exams.sort(key=lambda e: e[0])
    torn = {int(v) for v in rng.choice(len(exams), 4, replace=False)}
    rows = []
    for k, exam in enumerate(exams):
        status = str(rng.choice(["validé", "à relire", "en cours", "exclu"], p=(0.82, 0.07, 0.05, 0.06)))
        rows.append(_study(b, k, exam, "validé" if k in torn else status, k in torn))
    for k in range(3):  # chests that nobody asked for
        ipp, day = ipps[k * 5], f"2019110{k + 1}"
        tags = dict(
            zip(KEEP, ("ISO_IR 100", ipp, f"ANON^{ipp}", "M", uid(b), f"C2{1900 + k * 53}", day, uid(b)), strict=True)
        )
        tags |= {"BodyPartExamined": "CHEST", "StudyDescription": "TDM thoracique"}
        lung = draw.lung_ct(rng, bool(k % 2), (56, 56, 14))
        s = _series(b, 3, "native", lung, (6.2, 6.2, 8.0), [-174.0, -174.0, -90.0], "ge")
        why.update(dict.fromkeys(_write(b, f"export_pacs_01/{ipp}/{day}", s, tags, "ge"), "chest, not in the table"))
    b.truth["left_out"] = sorted(why)
    head = ["N° examen", "IPP", "Date", "Indication", "N° série annotée", "Lecteur", "Statut", "Remarque"]
    legend = [
        ["Colonne", "Signification"], ["N° examen", "numéro d'accès (AccessionNumber) du PACS"],
        ["N° série annotée", "numéro DICOM de la série sur laquelle le contour a été fait"],
        ["Statut", "validé = relu par le Dr Maréchal ; à relire = contour de l'interne seul"],
        ["Statut", "en cours = pas fini ; exclu = ne pas utiliser"], ["Lecteur", "initiales de l'interne"],
    ]  # fmt: skip
    known = [["Ancien IPP", "IPP retenu", "Fusion le"], *merged]
    b.xlsx("suivi_annotations.xlsx", {"Examens": [head, *rows], "Identités fusionnées": known, "Légende": legend})
    b.text("LISEZMOI.txt", README)


README = """Base « métastases du foie », imagerie digestive

export_pacs_01   export du PACS : IPP / date / série (toutes les phases, toutes les reconstructions)
export_pacs_02   examens ré-exportés : le premier transfert avait été coupé, ne plus se servir de leur copie dans 01
segmentations    contours ITK-SNAP des examens jusqu'à fin 2019
suivi_annotations.xlsx

Contours
- Jusqu'à fin 2019 : un fichier NIfTI par structure, <n° examen>_foie, _meta1, _meta2 ..., _kyste1 ...
  Pas de fichier _meta : pas de métastase. Un fichier _corr remplace celui du même nom sans _corr.
- Depuis 2020 : segmentation DICOM faite sur la console et renvoyée au PACS (séries 9001 et suivantes).
  Un segment par lésion (Méta 1, Méta 2, Kyste 1 ...). S'il y en a plusieurs, la plus récente fait foi.
- Le contour vaut pour la série indiquée dans le tableau et pour elle seule (le patient respire entre deux phases).
- Ne prendre que les examens validés.

L'identitovigilance a fusionné quelques dossiers en cours d'étude, voir la deuxième feuille du tableau.
"""


def _study(b: Build, k: int, exam: tuple[Any, ...], status: str, torn: bool) -> list[Any]:
    rng, why = b.rng, b.truth["left_out_why"]
    day, person, ipp, who, change = exam
    lesions, organ = _lesions(rng, who, change), who["parts"]["liver"]
    scanner, compact, n = str(rng.choice(["siemens", "ge"])), day.replace("-", ""), len(organ)
    pixel = round(float(rng.uniform(350, 410)) / n, 4)
    step = (pixel, pixel, float(rng.choice([5.0, 7.5, 8.0])))
    at = [round(-pixel * n / 2, 2), round(-pixel * n / 2 - 20, 2), round(float(rng.uniform(-400, 200)), 1)]
    target = "art" if who["net"] else "portal"
    kinds = (
        ["top"] + ["native"] * int(rng.random() < 0.4) + ["art"] * int(who["net"] or rng.random() < 0.5) + ["portal"]
    )
    if target == "portal" and rng.random() < 0.12:
        target = "portalagain"
        kinds.append(target)
    kinds += [x for x, p in (("thin", 0.22), ("mpr", 0.25), ("late", 0.22)) if rng.random() < p]
    accession = f"A{day[2:4]}{10203 + 37 * k + int(rng.integers(30)):05d}"
    tags = dict(
        zip(KEEP, ("ISO_IR 100", ipp, f"ANON^{ipp}", who["sex"], uid(b), accession, compact, uid(b)), strict=True)
    )
    tags |= {"BodyPartExamined": "ABDOMEN", "StudyDescription": "TDM abdominale"}
    plan = []
    for i, kind in enumerate(kinds):
        clean = _volume(who, kind if kind in PHASES else "portal", lesions, status == "exclu")
        if kind == "portal" and target == "portalagain":  # breathed
            clean = gaussian_filter(clean, (2.2, 1.2, 1.0))
        number = {"thin": 301, "mpr": 500}.get(kind, i + 1) if scanner == "ge" else i + 1
        plan.append(_series(b, number, kind, clean, step, at, scanner))
    drawn = next(s for s in plan if s["kind"] == target)
    folder = f"export_pacs_0{2 if torn else 1}/{ipp}/{compact}"
    for s in plan:
        paths = _write(b, folder, s, tags, scanner)
        if s is drawn and status == "validé":
            total = sum((m for name, m in lesions if name == "Méta"), np.zeros(organ.shape, bool))
            b.case(paths, patient=person, mask={"métastase": total})
        else:
            why.update({p: f"study {status}" if s is drawn else "another phase or reconstruction" for p in paths})
    if torn:
        for s in plan[: plan.index(drawn) + 1]:
            only = len(s["planes"]) * 3 // 5 if s is drawn else None
            paths = _write(b, f"export_pacs_01/{ipp}/{compact}", s, tags, scanner, only)
            if s is drawn:
                last = paths.pop()
                b.broken(last, (b.folder / last).read_bytes()[:3100])
            why.update(dict.fromkeys(paths, "torn export"))
    if status != "en cours":
        parts = [("Foie", organ)]
        for kind in ("Méta", "Kyste"):
            parts += [(f"{kind} {i + 1}", m) for i, m in enumerate(m for name, m in lesions if name == kind)]
        _contours(b, day, accession, f"{folder}/S", parts, drawn, tags)
    remark = {"exclu": "chimio-embolisation, lipiodol", "à relire": "interne parti, à revoir"}.get(status, "")
    remark = remark or ("premier temps portal bougé, refait" if target == "portalagain" else "")
    remark = "ré-exporté (01 incomplet)" if torn else remark or ("TNE, contour au temps artériel" if who["net"] else "")
    reason = "TNE du grêle" if who["net"] else b.pick("cancer colique", "cancer du rectum", "bilan d'extension sein")
    date = f"{day[8:]}/{day[5:7]}/{day[:4]}"
    return [accession, ipp, date, reason, drawn["number"], b.pick("CL", "MD", "AB"), status, remark]


def _contours(b: Build, day: str, accession: str, where: str, parts: list[Any], drawn: Any, tags: Any) -> None:
    rng, again = b.rng, b.rng.random() < 0.22
    wrong = [(name, m if name == "Foie" else np.roll(m, (3, 1), (0, 1)) | m) for name, m in parts]
    if day < "2020":
        for (name, mask), (_, bad) in zip(parts, wrong, strict=True):
            base = f"segmentations/{accession}_{name.lower().replace(' ', '').replace('é', 'e')}"
            redo = again and name.startswith("Méta")
            _nifti(b, base + ".nii.gz", bad if redo else mask, drawn)
            if redo:
                _nifti(b, base + "_corr.nii.gz", mask, drawn)
        return
    for i, (what, name) in enumerate(
        [(wrong, "Contours"), (parts, "Contours relus")] if again else [(parts, "Contours")]
    ):
        made = str(np.datetime64(day) + 20 * i + int(rng.integers(2, 18))).replace("-", "")
        more = {"SeriesNumber": 9001 + i, "SeriesDescription": name, "SeriesDate": made, "ContentDate": made}
        _seg(b, f"{where}{9001 + i}/SEG00001", what, drawn, tags, **more, ContentTime="101500")
