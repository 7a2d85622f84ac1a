"""A draft: rules in the making, with what they say in words and which decisions they hold."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from shared.contracts.base import TaskKind
from shared.contracts.rules import Excluded, Images, LabelRule, MaskRule, Rules, SplitRule, TextRule
from shared.contracts.values import Source, Table
from shared.dataset.survey.pieces import Piece, braces


@dataclass(frozen=True)
class Channel:
    name: str
    pieces: tuple[Piece, ...]
    array: str | None = None
    inside: int = 0
    """Parts at the end of the pieces' patterns that name an array in the file, and its entry."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Of what is inside of files."""
        last = self.pieces[0].pattern.split("/")[-self.inside :] if self.inside else []
        return tuple(re.findall(r"\{(\w+)\}", "/".join(last)))

    def parts(self, path: str, entry: bool) -> tuple[str, str | None, str, int | None]:
        """File, array for rules, name of the array and number of the entry, of a pattern or a path of a piece."""
        if not self.inside:
            return path, self.array, self.array or "", None
        parts = path.split("/")
        inner = parts[-self.inside :]
        number = inner.pop() if entry else ""
        array = "/".join(inner)
        index = int(number) if number.isdecimal() else None
        return "/".join(parts[: -self.inside]), array or None, array, index


@dataclass(frozen=True)
class Draft:
    """One combination of decisions. Everything is by name of fields in the pieces' patterns."""

    task: TaskKind
    dimensions: int
    channels: tuple[Channel, ...]
    case: Any = "file"
    several: str = "slices"
    axis4: str = "refuse"
    channel_names: tuple[str, ...] = ()
    fields: dict[str, Source] = field(default_factory=dict)
    """Further fields of the files, that tables tell."""
    tables: dict[str, Table] = field(default_factory=dict)
    patient: Source | None = None
    label: LabelRule | None = None
    masks: tuple[MaskRule, ...] = ()
    text: TextRule | None = None
    slope: Source | None = None
    intercept: Source | None = None
    split: SplitRule | None = None
    exclude: tuple[Excluded, ...] = ()
    others: tuple[Piece, ...] = ()
    """Pieces that are neither, such as masks: fields are renamed in them, too."""
    prior: float = 0.0
    """How likely it is before it is tried: what names and the request's words speak for."""
    says: dict[str, str] = field(default_factory=dict)
    """Part (`case`, `target`, `patient`, `split`, `missing`) -> words."""
    decisions: dict[str, str] = field(default_factory=dict)
    """Key of a question -> what this draft chooses."""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return tuple(piece for channel in self.channels for piece in channel.pieces)

    @property
    def images(self) -> int:
        return sum(len(piece.files) for piece in self.pieces)

    @property
    def used(self) -> set[str]:
        """Fields that other parts than the images' patterns name, so that they must stay."""
        patterns = [one for mask in self.masks for one in (*mask.files, mask.structure or "")]
        patterns += [table.file for table in self.tables.values()] + [piece.pattern for piece in self.others]
        found = {name for pattern in patterns for name in re.findall(r"\{(\w+)\}", pattern)}
        found |= {table.names for table in self.tables.values()}
        found |= set(self.case) if isinstance(self.case, tuple) else set()
        label, split = self.label and self.label.source, self.split and self.split.source
        return found | {source.field for source in (self.patient, label, split) if source and source.field}

    def with_level(self, depth: int, name: str) -> "Draft":
        """With a whole folder as one field, in all images."""
        channels = tuple(
            replace(one, pieces=tuple(piece.with_level(depth, name) for piece in one.pieces)) for one in self.channels
        )
        return replace(self, channels=channels)

    def replaced(self, text: str, name: str) -> "Draft | None":
        """With a stretch of the patterns as one field: everywhere, or where other parts need its fields at its first
        place in the images. None where files could not be joined any more."""
        new = braces(name)
        everywhere = replace(
            self._images(text, new, -1),
            masks=tuple(_with_files(one, tuple(p.replace(text, new) for p in one.files)) for one in self.masks),
            tables={
                key: one.model_copy(update={"file": one.file.replace(text, new)}) for key, one in self.tables.items()
            },
            others=tuple(replace(p, pattern=p.pattern.replace(text, new)) for p in self.others),
        )
        if isinstance(self.case, tuple):
            own = [field for field in self.case if not field.startswith("header.")]
            gone = [field for field in own if any(field not in piece.fields for piece in everywhere.pieces)]
            kept = [field for field in self.case if field not in gone]
            everywhere = replace(everywhere, case=(*([name] if gone else []), *kept))
        for made in (everywhere, self._images(text, new, 1)):
            needed = {field for field in made.used if any(field in piece.fields for piece in self.pieces)}
            if all(field in piece.fields for piece in made.pieces for field in (*needed, name)):
                return made
        return None

    def _images(self, text: str, new: str, times: int) -> "Draft":
        channels = tuple(
            replace(one, pieces=tuple(replace(p, pattern=p.pattern.replace(text, new, times)) for p in one.pieces))
            for one in self.channels
        )
        return replace(self, channels=channels)

    def change(self, **fields: Any) -> "Draft":
        return replace(self, **fields)

    def said(self, part: str, words: str) -> "Draft":
        return replace(self, says={**self.says, part: words})

    def decided(self, key: str, choice: str) -> "Draft":
        return replace(self, decisions={**self.decisions, key: choice})

    def renamed(self, names: dict[str, str]) -> "Draft":
        """Other names for fields, in all patterns."""
        channels = tuple(
            replace(one, pieces=tuple(piece.renamed(names) for piece in one.pieces)) for one in self.channels
        )
        masks = tuple(one.model_copy(update={"files": tuple(_named(p, names) for p in one.files),
                                             "structure": _named(one.structure, names) if one.structure else None})
                      for one in self.masks)  # fmt: skip
        tables = {
            key: one.model_copy(update={"file": _named(one.file, names), "names": names.get(one.names, one.names)})
            for key, one in self.tables.items()
        }
        case = tuple(names.get(one, one) for one in self.case) if isinstance(self.case, tuple) else self.case
        others = tuple(piece.renamed(names) for piece in self.others)
        label = self.label
        if label and label.source and label.source.file:
            source = label.source.model_copy(update={"file": _named(label.source.file, names)})
            label = label.model_copy(update={"source": source})
        return replace(self, channels=channels, masks=masks, tables=tables, case=case, others=others, label=label)

    def _entry(self, channel: Channel) -> Images:
        read = [channel.parts(piece.pattern, self.case == "entry") for piece in channel.pieces]
        return Images(files=tuple(dict.fromkeys(one[0] for one in read)), channel=channel.name, array=read[0][1])

    def rules(self) -> Rules | None:
        """None where the parts do not make rules."""
        try:
            return Rules(
                task=self.task,
                dimensions=3 if self.dimensions == 3 else 2,
                images=tuple(map(self._entry, self.channels)),
                case=self.case,
                several=self.several,
                axis4=self.axis4,
                channel_names=self.channel_names,
                fields=self.fields,
                tables=self.tables,
                patient=self.patient,
                label=self.label,
                masks=self.masks,
                text=self.text,
                slope=self.slope,
                intercept=self.intercept,
                split=self.split,
                exclude=self.exclude,
            )  # fmt: skip
        except ValidationError:
            return None


def _with_files(rule: MaskRule, files: tuple[str, ...]) -> MaskRule:
    return rule.model_copy(update={"files": files})


def _named(pattern: str, names: dict[str, str]) -> str:
    for old, new in names.items():
        pattern = pattern.replace(braces(old), braces(new))
    return pattern


def sentence(says: dict[str, str], order: Sequence[str] = ("case", "target", "patient", "split", "missing")) -> str:
    words = [says[part] for part in order if says.get(part)]
    return "; ".join(words)
