"""Diagnosis on volumes: BIDS with derivatives and a quality column, and a disk as the archive burns it."""

import tempfile
from pathlib import Path

import numpy as np
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.fileset import FileSet
from pydicom.uid import ExplicitVRLittleEndian

from bench.strangers import draw
from bench.strangers.build import Families, dicom, tsv, uid
from tests.families.base import Build

FAMILIES = Families()
family = FAMILIES.family


@family(
    "bids_quality_column", "diagnosis", 3,
    "Alzheimer's disease or healthy control from the T1 MRI?",
    notes="participants.tsv has the group and qc pass/fail, failed ones do not count; derivatives repeat images; two sessions.",
)  # fmt: skip
def bids(b: Build) -> None:
    rows = [["participant_id", "age", "sex", "group", "mmse", "qc_t1w"]]
    for n in range(30):
        who, sick, failed = f"sub-OAS{3 * n + 101:04d}", n % 2 == 1, n % 10 == 6
        for session in range(1, 2 + (n % 6 == 0)):
            place = f"{who}/ses-{session:02d}/anat/{who}_ses-{session:02d}"
            brain = draw.brain(b.rng, 0.9 if sick else 0.1, (30, 36, 20))
            if failed:
                brain = brain + 150 * np.sin(np.arange(36))[None, :, None]
            path = b.nifti(f"{place}_T1w.nii.gz", brain)
            b.json(f"{place}_T1w.json", {"MagneticFieldStrength": 3, "RepetitionTime": 2.4, "EchoTime": 0.003})
            b.nifti(f"derivatives/smriprep/{place}_desc-preproc_T1w.nii.gz", brain * 0.9)
            b.nifti(f"derivatives/smriprep/{place}_desc-brain_mask.nii.gz", brain > 150, dtype=np.uint8)
            if failed:
                b.truth["left_out"].append(path)
            else:
                b.case(path, patient=who, label="AD" if sick else "HC")
        rows.append([who, 60 + n, b.pick("M", "F"), "AD" if sick else "HC", 20 + n % 3 if sick else 29, "fail" if failed else "pass"])
    tsv(b, "participants.tsv", rows)
    b.json("participants.json", {
        "group": {"Levels": {"AD": "Alzheimer's disease", "HC": "healthy control"}},
        "qc_t1w": {"Description": "visual rating by two raters", "Levels": {"pass": "usable", "fail": "exclude from analyses"}},
    })  # fmt: skip
    b.json("dataset_description.json", {"Name": "memory clinic", "BIDSVersion": "1.8.0", "DatasetType": "raw"})
    b.json("derivatives/smriprep/dataset_description.json", {"Name": "sMRIPrep", "BIDSVersion": "1.8.0", "DatasetType": "derivative"})
    b.text("CHANGES", "1.0.1 2023-02-01\n - sub-OAS0119 rescanned\n")
    b.text(".bidsignore", "*_scout*\n")


@family(
    "archive_disk", "diagnosis", 3,
    "Chest CT: usual interstitial pneumonia (UIP) or no ILD?",
    notes="DICOMDIR disk: CT with scout and dose report, films of the same people; a workbook with title rows lists accession numbers.",
)  # fmt: skip
def disk(b: Build) -> None:
    fs, rows, studies = FileSet(), [], []
    fs.UID = uid(b)
    with tempfile.TemporaryDirectory() as away:
        desk = Build(Path(away), b.rng)
        for n in range(26):
            first = n - (n % 9 == 4)  # some came twice
            person, sick = f"ILD{first:04d}", first % 2 == 0
            acc = f"A{20210000 + 311 * n}"
            tags = {"PatientID": person, "PatientName": f"ILD^{first}", "StudyInstanceUID": uid(b),
                    "StudyID": str(n + 1), "StudyDate": f"2021{n % 12 + 1:02d}{n % 27 + 1:02d}", "StudyTime": "101500",
                    "AccessionNumber": acc, "StudyDescription": "CT Thorax nativ"}  # fmt: skip
            frame = uid(b)
            scan = draw.lung_ct(b.rng, sick, (40, 36, 8))
            scout = {"SeriesInstanceUID": uid(b), "SeriesNumber": 1, "SeriesDescription": "Topogramm", "InstanceNumber": 1,
                     "ImageType": ["ORIGINAL", "PRIMARY", "LOCALIZER"], "PixelSpacing": [3.0, 3.0], "FrameOfReferenceUID": frame,
                     "ImageOrientationPatient": [1, 0, 0, 0, 0, -1], "ImagePositionPatient": [-60, 0, 40]}  # fmt: skip
            dicom(desk, f"{n}/scout", np.round(scan.mean(1).T).astype(np.int16), "CT", **tags, **scout)
            slices = []
            series = {"SeriesInstanceUID": uid(b), "SeriesNumber": 2, "SeriesDescription": "Lunge 5.0 B70f",
                      "ImageType": ["ORIGINAL", "PRIMARY", "AXIAL"], "PixelSpacing": [3.0, 3.0], "SliceThickness": 5.0,
                      "ImageOrientationPatient": [1, 0, 0, 0, 1, 0], "FrameOfReferenceUID": frame,
                      "RescaleSlope": 1, "RescaleIntercept": -1024}  # fmt: skip
            for k in range(8):
                pixels = np.clip(scan[..., k].T + 1024, 0, 4095).astype(np.uint16)
                place = {"ImagePositionPatient": [-60, -54, 5.0 * k], "InstanceNumber": 8 - k}
                slices.append(dicom(desk, f"{n}/{k}", pixels, "CT", **tags, **series, **place))
            _dose(desk, f"{n}/dose", tags)
            if n % 3 == 0:
                old = tags | {"StudyInstanceUID": uid(b), "StudyID": str(100 + n), "AccessionNumber": f"R{n}", "StudyDescription": "Thorax p.a."}
                film = (np.clip(draw.chest(b.rng), 0, 255) * 12).astype(np.uint16)
                dicom(desk, f"{n}/film", film, "CR", **old, SeriesInstanceUID=uid(b), SeriesNumber=1, InstanceNumber=1)
            studies.append((person, "UIP" if sick else "keine ILD", slices))
            rows.append([person, 1940 + n, acc, f"{n % 27 + 1:02d}.{n % 12 + 1:02d}.2021", "UIP" if sick else "keine ILD", b.pick(None, "Verlauf", None)])
        named = {p.relative_to(away).as_posix(): fs.add(p).SOPInstanceUID for p in sorted(Path(away).rglob("*")) if p.is_file()}
        fs.write(b.folder)
        places = {one.SOPInstanceUID: Path(one.path).relative_to(b.folder).as_posix() for one in FileSet(b.folder / "DICOMDIR")}
        for person, kind, slices in studies:
            b.case([places[named[one]] for one in slices], patient=person, label=kind)
    b.xlsx("Liste/ILD-Board 2021.xlsx", {
        "Info": [["ILD-Board", None], ["Stand", "12.01.2022"], ["Ansprechpartner", "Sekretariat Pneumologie"]],
        "Fälle": [["Fälle des ILD-Boards 2021", *[None] * 5], ["Patient", None, "Untersuchung", None, "Ergebnis", None],
                  ["Pat.-ID", "Geb.-Jahr", "Acc.-Nr.", "Datum", "Diagnose", "Bemerkung"], *rows],
    })  # fmt: skip
    b.text("AUTORUN.INF", "[autorun]\r\nopen=VIEWER\\START.EXE\r\n")
    b.raw("VIEWER/START.EXE", b"MZ\x90\x00" + bytes(60))
    b.text("INDEX.HTM", "<html><body>IHE PDI</body></html>\n")


def _dose(b: Build, path: str, tags: dict) -> None:
    """A dose report: a DICOM file without pixels."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = "1.2.840.10008.5.1.4.1.1.88.67", uid(b)
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds = FileDataset(None, {}, file_meta=meta, preamble=bytes(128))
    ds.SOPClassUID, ds.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    ds.Modality, ds.SeriesInstanceUID, ds.SeriesNumber, ds.InstanceNumber = "SR", uid(b), 501, 1
    ds.SeriesDescription, ds.ContentDate, ds.ContentTime = "Dose Report", tags["StudyDate"], tags["StudyTime"]
    ds.CompletionFlag, ds.VerificationFlag, ds.ValueType = "COMPLETE", "UNVERIFIED", "CONTAINER"
    ds.ConceptNameCodeSequence = []
    for key, value in tags.items():
        setattr(ds, key, value)
    ds.save_as(b.at(path), enforce_file_format=True)
