"""Small synthetic datasets as they really lie on people's disks, each with its truth in a file outside it."""

from . import (
    ambiguous,
    diagnosis_arrays,
    diagnosis_folders,
    diagnosis_lists,
    diagnosis_tables,
    diagnosis_volumes,
    dicom_sets,
    hopeless,
    kinds_of_files,
    people_in_names,
    records,
    repeated,
    reports,
    segmentation_annotations,
    segmentation_pictures,
    segmentation_volumes,
)
from .base import FAMILIES, Family

__all__ = [
    "FAMILIES",
    "Family",
    "ambiguous",
    "diagnosis_arrays",
    "diagnosis_folders",
    "diagnosis_lists",
    "diagnosis_tables",
    "diagnosis_volumes",
    "dicom_sets",
    "hopeless",
    "kinds_of_files",
    "people_in_names",
    "records",
    "repeated",
    "reports",
    "segmentation_annotations",
    "segmentation_pictures",
    "segmentation_volumes",
]
