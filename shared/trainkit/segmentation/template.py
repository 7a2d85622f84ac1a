"""What a template says of itself, and which structures its data must have."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.trainkit.checks import Problem
from shared.trainkit.exported import CLI, SEGMENTER

Counts = Mapping[str, Mapping[str, int]]
"""split -> structure -> samples that have it."""


@dataclass(frozen=True)
class Template:
    task: str
    folder: Path
    """With predict.py and model.py, which are exported."""
    load: Callable[[str], Any]
    """config.load."""
    dataset: Any
    """The modules dataset and model of the folder; their READMEs say what they keep."""
    model: Any
    every_structure: bool
    """Whether the data are refused where a structure is in no training mask; else it is only said."""

    def exported(self, with_model: bool) -> list[Path]:
        model = [self.folder / "model.py"] if with_model else []
        return [self.folder / "predict.py", *model, CLI, SEGMENTER]

    def missing(self, counts: Counts, values: Mapping[str, int]) -> list[Problem]:
        """What cannot be learnt, or not be measured at all."""
        unseen = self.unseen(counts, values)
        if unseen and (self.every_structure or len(unseen) == len(values)):
            return [Problem(f"structure {name}", f"no training mask has it (value {values[name]})") for name in unseen]
        if not any(counts["val"].get(name) for name in values):
            return [
                Problem("split val", "no mask has a structure, by which weights are chosen; give it images that do")
            ]
        return []

    def unseen(self, counts: Counts, values: Mapping[str, int]) -> list[str]:
        return [name for name in values if not counts["train"].get(name)]

    def limits(self, counts: Counts, values: Mapping[str, int]) -> list[str]:
        """Sentences for the model card."""
        unseen, untried = self.unseen(counts, values), [name for name in values if not counts["val"].get(name)]
        return [f"No training image has {name}: it is never found." for name in unseen] + [
            f"No validation image has {name}: nothing is known about its quality." for name in untried
        ]
