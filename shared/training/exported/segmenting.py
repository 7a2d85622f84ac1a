"""What predict.py of a segmentation makes of each INPUT: a mask on its own grid, and a score map where it is wanted.

An INPUT is an image (imaging/formats.py lists what is read), or a folder with one: a file, DICOM slices, or a file a
channel in natural order; pictures are slices where the model has another number of channels. Other files of a folder
are passed over. A mask (NIfTI, PNG for a picture) has the label values of the training data, a score map the
probability of any structure (float32 NIfTI, 16-bit PNG for a picture).
"""

from pathlib import Path
from typing import Any

from shared.training.exported.package_cli import Asked


class Segmenter:
    """The packaged model, as package_cli asks for it. A template's has `channels`, those of an image, and `segment`."""

    channels: int

    def __init__(self, asked: Asked) -> None:
        import numpy as np

        names, values = asked.labels["names"], asked.labels["values"]
        self.head = {"task": asked.config["task"], "labels": names, "label_values": values}
        self.numbers = np.array([0, *(values[name] for name in names)])
        self.scored = bool(asked.config["score_map"])
        self.output, self.taken = asked.output, set[str]()

    def segment(self, image: Any) -> tuple[Any, Any]:
        """Class numbers on the axes of the image's file, and the probability of any class if `scored`."""
        raise NotImplementedError

    def read(self, path: Path) -> tuple[str, Any]:
        from shared.imaging.case import load_image
        from shared.imaging.inputs import input_files, input_name

        return input_name(path), load_image(input_files(path), self.channels)

    def answer(self, items: list[tuple[str, Any]]) -> list[dict[str, str]]:
        from shared.imaging.case import free_name, write_mask, write_scores

        answers = []
        for stem, image in items:
            classes, scores = self.segment(image)
            name = free_name(stem, self.taken)
            answers.append({"mask": write_mask(image, self.numbers[classes], self.output, name)})
            if self.scored:
                answers[-1]["score"] = write_scores(image, scores, self.output, name)
        return answers
