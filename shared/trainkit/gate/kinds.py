"""What the gate can find, a line a kind: how bad it is, what it is, and what to do about it."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Kind:
    severity: Severity
    """`error`: what is counted cannot be used as it is. `warning`: it can, by someone who knows."""
    what: str
    repair: str
    """Never a change to the raw data."""


def _error(what: str, repair: str) -> Kind:
    return Kind("error", what, repair)


def _warning(what: str, repair: str) -> Kind:
    return Kind("warning", what, repair)


_AGAIN = "copy it again from its source; leave it out until then"
KINDS: dict[str, Kind] = {
    "no_images": _error("the folder holds no image", "name the folder that holds them, or unpack its archives first"),
    "empty_file": _error("file of 0 bytes", _AGAIN),
    "truncated": _error("file that is cut off", _AGAIN),
    "undecodable": _error("file that cannot be read as its format", "export it again from its source, or leave it out"),
    "no_permission": _error("file or folder that may not be read", "let everybody read it: chmod -R o+rX on it"),
    "unsafe_pickle": _error(
        "pickle that asks for more than arrays; it is not opened",
        "have the array saved as .npy or NIfTI; never unpickle it",
    ),
    "odd_name": _error(
        "name with a backslash, a control character or undecodable bytes",
        "have the file sent again under a plain name; leave it out until then",
    ),
    "table_unreadable": _error(
        "table or list that cannot be parsed",
        "read it with the fault in mind (comments in JSON, another delimiter), and write what you need of it into "
        "your workspace",
    ),
    "image_without_mask": _error(
        "image without its mask", "leave it out of training and scoring, or have its mask added to the dataset"
    ),
    "mask_without_image": _error("mask without its image", "leave it out, or have its image added to the dataset"),
    "row_without_file": _error(
        "row or list entry whose file is not there", "leave these rows out, or copy the files from the source"
    ),
    "shape_mismatch": _error(
        "mask of another shape than its image",
        "where both cover the same region by their affines, resample the mask with nearest neighbour onto the image's "
        "grid into your workspace; else leave the case out",
    ),
    "orientation_mismatch": _error(
        "mask whose axes run another way than its image's",
        "reorient the mask by its affine onto the image's axes into your workspace, and look at an overlay of each",
    ),
    "affine_mismatch": _error(
        "mask whose affine is not its image's",
        "look at an overlay: where the mask fits voxel by voxel, take the image's affine for it; where it fits in "
        "millimetres, resample it with nearest neighbour onto the image's grid into your workspace",
    ),
    "four_axes": _error(
        "image with four axes among volumes", "take one volume of it a case (say which), or leave it out"
    ),
    "bad_spacing": _error(
        "image whose voxel size is 0, negative or not a number",
        "have it exported again; leave it out until then, its geometry is unknown",
    ),
    "mask_not_whole": _error(
        "mask with values that are no whole numbers",
        "find out whether it was resampled with interpolation; have it exported again with nearest neighbour. "
        "Do not round it",
    ),
    "mask_lossy": _error(
        "mask in a lossy or smoothed picture: values lie around those that are meant",
        "take values from half of the maximum up as 1 if there is one structure; else have it exported as PNG",
    ),
    "mask_not_finite": _error(
        "mask with NaN or infinite values", "leave the case out, or have its mask exported again"
    ),
    "mask_negative": _error(
        "mask with negative values", "ask what they mean; take them as background only where that is certain"
    ),
    "mask_is_image": _error(
        "file in the place of a mask that holds intensities",
        "leave the case out, or name the right mask; this one has more values than a mask can have structures",
    ),
    "mask_colour": _error(
        "mask as a colour picture", "turn its colours into one number a structure by a table, into your workspace"
    ),
    "not_finite": _error(
        "image with NaN or infinite voxels",
        "replace them by the lowest finite value when reading, or leave it out where they cover the anatomy",
    ),
    "constant_image": _error("image of one value only", "leave it out: it shows nothing"),
    "no_support": _error(
        "class with fewer than 3 patients: train, validation and test cannot all have one",
        "leave the class out, join it with another by a rule that a clinician confirms, or add patients",
    ),
    "one_class": _error("all samples have one class", "add samples of another class; nothing can be told apart"),
    "one_patient": _error("all samples are of one patient", "add patients; one cannot stand on both sides of a split"),
    "copies_disagree": _error(
        "copies of one image under different labels", "leave all of them out until somebody says which label is right"
    ),
    "rows_disagree": _error(
        "file that stands in rows with different labels", "leave it out until somebody says which label is right"
    ),
    "appledouble": _warning(
        "AppleDouble file (`._name`), which a Mac left beside the real one", "leave these out: they are no images"
    ),
    "clutter": _warning("hidden file or folder", "leave these out"),
    "link": _warning("symbolic link, which is not followed", "put the file itself into the dataset's folder"),
    "archive": _warning("archive beside the data; it is not opened", "unpack it first if it holds cases"),
    "wrong_extension": _warning(
        "file whose content is another format than its extension says",
        "read it by its content, or copy it under the right extension into your workspace",
    ),
    "mixed_extensions": _warning(
        "image in another format or spelling of it than most",
        "compare extensions in lower case, and take all of them",
    ),
    "image_by_content": _warning(
        "file that begins like an image, whatever its name says",
        "take it as an image by its content, or leave it out on purpose",
    ),
    "unlabelled_folder": _warning(
        "image of a folder without masks", "leave the folder out of training and scoring: nothing in it has an answer"
    ),
    "other_mask": _warning("mask of another kind than the one paired", "name this kind in the datacard to use it"),
    "other_image": _warning(
        "further image of a case; one image a case is used", "name the kind to use in the datacard"
    ),
    "second_file": _warning("second file of the same kind for one case", "keep one of them, by a stated rule"),
    "beside_volumes": _warning("picture beside volumes", "leave these out: they are views of the volumes"),
    "other_format": _warning("image in a format that is not read for masks", "convert a copy to NIfTI"),
    "off_list": _warning(
        "file that the dataset's own list leaves out", "leave it out, or say that the list is not complete"
    ),
    "loose_pair": _warning(
        "image and mask whose names agree only in their numbers",
        "pair by the number in the name after removing `_0000`, and look at an overlay of each",
    ),
    "pair_names": _warning("image and mask of different names", "pair by this rule"),
    "file_without_row": _warning(
        "image that no table or list names", "leave it out: it has no label; or have its row added"
    ),
    "empty_label": _warning("row without a label", "leave these rows out"),
    "label_spelling": _warning("label in several spellings", "take them as one: strip spaces, compare in lower case"),
    "empty_text": _warning(
        "row without a text, or with a placeholder for one", "leave these rows out where the text is the answer"
    ),
    "mixed_dimensions": _warning(
        "image with another number of axes than most", "leave these out, or ask what they are"
    ),
    "no_orientation": _warning(
        "NIfTI with neither sform nor qform: position and orientation are unknown",
        "do not reorient these; compare an overlay with another case before mixing them",
    ),
    "oblique": _warning(
        "image whose axes are tilted against the patient's",
        "keep each affine, and resample by it; never take the axes for the patient's",
    ),
    "mixed_orientations": _warning(
        "image whose axes run another way than those of most",
        "bring image and mask together to one orientation (RAS) when reading",
    ),
    "spacing_outlier": _warning(
        "image whose spacing is far from that of the others", "check the unit (mm or m, cm), or leave it out"
    ),
    "mixed_spacing": _warning("image of a set whose spacing differs much", "resample to one spacing when reading"),
    "size_outlier": _warning(
        "image whose size is far from that of the others",
        "look at it (another region, a localiser, a crop?), or leave it out",
    ),
    "slice_gap": _warning(
        "scan with numbers missing between its slices",
        "take the slices in order as they are, and expect jumps; leave the scan out where much is missing",
    ),
    "mixed_slices": _warning("scan whose slices differ in size", "leave out the slices of the rarer size, or the scan"),
    "several_series": _warning(
        "folder with slices of several DICOM series", "part the slices by SeriesInstanceUID; one scan is one series"
    ),
    "mask_two_values": _warning("mask of 0 and one other value than 1", "take these two values as 0 and 1"),
    "mask_float": _warning("mask of whole numbers stored as floats", "turn it into integers when reading"),
    "rare_value": _warning(
        "mask value that few cases have",
        "expect no score for it: leave it out of the structures, or add cases with it",
    ),
    "value_gaps": _warning(
        "value that is missing between the values of the masks",
        "map structures by their values, never by their place in a list of names",
    ),
    "values_unnamed": _warning(
        "doubt about the names of mask values", "name them in the datacard, or check the names against an overlay"
    ),
    "empty_mask": _warning(
        "mask that holds background only", "keep it where the finding is truly absent; else leave the case out"
    ),
    "mixed_intensities": _warning(
        "image in Hounsfield units where others hold grey values, or the reverse",
        "window those in Hounsfield units as the others were and scale them to 0 to 255, when reading; or use one kind",
    ),
    "mixed_pixels": _warning(
        "picture of another pixel kind than most (grey, colour, 16 bit)",
        "turn all into one channel and one range when reading",
    ),
    "few_patients": _warning(
        "class with fewer than 10 patients", "expect a wide interval for it; keep one or more on each side of the split"
    ),
    "imbalance": _warning(
        "label column or folder level whose largest class has more than ten times the patients of its smallest",
        "weight or oversample in training only, and judge by balanced accuracy",
    ),
    "class_shortcut": _warning(
        "class that can be told by its files alone (extension, size, pixel kind)",
        "bring all classes to one size and pixel kind when reading, so that the export is not learned",
    ),
    "copies": _warning("exact copy of another sample", "use one of each, and keep copies on one side of the split"),
    "several_scans": _warning("patient with several samples", "split by patient, never by file"),
    "both_sides": _warning(
        "patient on both sides of the dataset's own split", "make a new split by patient, or drop these from training"
    ),
    "patients_unknown": _warning(
        "sample whose patient nothing tells; each counts as a patient of its own",
        "ask for patient ids; until then call the grouping inferred",
    ),
}
