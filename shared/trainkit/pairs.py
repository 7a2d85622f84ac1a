"""Which mask belongs to which image, by the names of files and by what the files hold. Runs in the sandbox.

A file's path is read as a key (which case) and a role (which kind of file of the case). Several readings are tried,
the simplest first: the whole name as key, the name without words such as `img` or `_seg`, its numbers only, each with
no, one or two folders as part of the key. The reading that pairs most images with masks is taken.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from shared.trainkit.index import natural_key
from shared.trainkit.masks import grid_of, grid_problem, looks_like_mask, mask_values
from shared.trainkit.names import READINGS, Reading, folder_only, without_words, words_of

_SPLIT_WORD = re.compile(r"training|train|testing|test|validation|valid|val|(?<=[a-z])(?:Tr|Ts|Va)$|\d+|[^A-Za-z]+")
_MOST_ROLES = 40

Role = tuple[tuple[str, ...], str]
"""Folders (without those in the key), and the role words of the name."""


@dataclass(frozen=True)
class Pair:
    image: str
    mask: str
    case: str
    """What the two have in common; its folders, if any, come first."""
    place: str = ""
    """Folder or list entry that may name a split."""


@dataclass
class Pairing:
    pairs: list[Pair] = field(default_factory=list)
    says: str = ""
    """How they were paired, in a sentence."""
    in_folders: bool = False
    """Each case has a folder of its own."""
    unused: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Reason -> files that are in no pair."""


NO_MASK = "image without its mask: add the mask, or take the image out"
UNLABELLED = "image of a folder without masks: nothing in it can be trained on or scored; add its masks to use it"
NO_IMAGE = "mask without its image: add the image, or take the mask out"
OTHER_IMAGE = "further image of a case: one image a case is used; name another one in the datacard to use that"
OTHER_MASK = "mask of another kind than the one that is trained on; name this kind in the datacard to use it"
SECOND = "second file of the same kind for one case: keep one of them"


@dataclass(frozen=True)
class _Option:
    cases: int
    rank: tuple[float, int, bool, float, int, bool, str]
    """The lowest is best: the kind that the datacard names, the mask with most structures, one grid, most cases."""
    roles: list[tuple[Role, Role]]


class Finder:
    """Reads the names of `files` (relative to `data`) in several ways; looks into as few of them as it can."""

    def __init__(self, data: Path, files: Sequence[str], stem: Callable[[str], str], hints: str = "") -> None:
        self.data = data
        self.files = sorted(files, key=natural_key)
        self.stem = stem
        self.hints = hints.lower()
        self._content: dict[str, bool | None] = {}
        self._structures: dict[str, int] = {}

    def find(self) -> Pairing:
        """The reading with most pairs; a later one has to pair a fifth more than a simpler one before it."""
        best = Pairing()
        for least in (2, 1):  # roles that share one case only may do so by chance
            for folders in range(3):
                for reading, says in READINGS:
                    if reading is folder_only and (folders == 0 or least == 1):
                        continue
                    found = self._read(reading, says, folders, least)
                    if found and len(found.pairs) > 1.2 * len(best.pairs):
                        best = found
            if best.pairs:
                break
        if not best.pairs:
            alike: dict[Role, list[str]] = defaultdict(list)
            for name in self.files:
                alike[(PurePosixPath(name).parts[:-1], without_words(self.stem(name))[1])].append(name)
            for role, names in alike.items():
                best.unused[NO_IMAGE if self.kind(role, names) == "mask" else NO_MASK] += names
        return best

    def _read(self, reading: Reading, says: str, folders: int, least: int) -> Pairing | None:
        roles: dict[Role, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for name in self.files:
            *above, _ = PurePosixPath(name).parts
            key, role = reading(self.stem(name))
            cut = max(0, len(above) - folders)
            roles[(tuple(above[:cut]), role)]["/".join([*above[cut:], key])].append(name)
        shared = self._shared(roles)
        sure = {_families(pair) for pair, count in shared.items() if count >= least}
        # A folder with one case counts where others show that its two kinds of files belong together.
        wanted = [pair for pair in shared if _families(pair) in sure]
        if not wanted or len({role for pair in wanted for role in pair}) > _MOST_ROLES:
            return None
        kinds = {role: self.kind(role, [names[0] for names in roles[role].values()])
                 for role in sorted({role for pair in wanted for role in pair})}  # fmt: skip
        matches = {
            (one, other): shared[tuple(sorted((one, other)))]
            for pair in wanted
            for one, other in (pair, pair[::-1])
            if kinds[one] == "image" and kinds[other] == "mask"
        }
        chosen = self._choose(matches, roles)
        if not chosen:
            return None
        pairing = Pairing(says=f"an image and its mask have {says}" + _in(folders), in_folders=folders > 0)
        self._fill(pairing, chosen, roles)
        return pairing

    @staticmethod
    def _shared(roles: Mapping[Role, Mapping[str, object]]) -> Counter[tuple[Role, ...]]:
        """Pairs of roles -> cases that have both."""
        by_key: dict[str, list[Role]] = defaultdict(list)
        for role, keys in roles.items():
            for key in keys:
                by_key[key].append(role)
        found: Counter[tuple[Role, ...]] = Counter()
        for holders in by_key.values():
            holders = sorted(holders)[:_MOST_ROLES]
            found.update((one, other) for n, one in enumerate(holders) for other in holders[n + 1 :])
        return found

    def kind(self, role: Role, names: Sequence[str]) -> str:
        """`image` or `mask`: by the words nearest to the file, and where they do not say by what a few files hold."""
        for piece in (role[1], *reversed(role[0])):
            if said := words_of(piece):
                return said
        picked = [names[len(names) * step // 3] for step in range(min(3, len(names)))]
        looks = [look for look in map(self._look, dict.fromkeys(picked)) if look is not None]
        return "mask" if looks and sum(looks) * 2 > len(looks) else "image"

    def _look(self, name: str) -> bool | None:
        if name not in self._content:
            try:
                self._content[name] = looks_like_mask(self.data / name)
            except Exception:  # a damaged file says nothing about its kind; it is told later
                self._content[name] = None
        return self._content[name]

    def _choose(
        self, matches: Mapping[tuple[Role, Role], int], roles: Mapping[Role, Mapping[str, Sequence[str]]]
    ) -> list[tuple[Role, Role]]:
        """Pairs of roles that belong together: one kind of image, one kind of mask, perhaps in several folders."""
        kinds: dict[tuple[str, str], list[tuple[int, Role, Role]]] = defaultdict(list)
        for (image, mask), count in matches.items():
            kinds[(_family(image), _family(mask))].append((count, image, mask))
        options: list[_Option] = []
        for (image_kind, mask_kind), found in kinds.items():
            taken: list[tuple[Role, Role]] = []
            total = 0
            for count, image, mask in sorted(found, key=lambda item: (-item[0], item[1:])):
                if all(image != other and mask != another for other, another in taken):
                    taken.append((image, mask))
                    total += count
            sample = [names[0] for _, mask in taken[:1] for names in list(roles[mask].values())[:2]]
            fits = any(self._fits(roles[image], roles[mask]) for image, mask in taken[:1])
            rank = (
                -_told(mask_kind, self.hints),
                -self._count_structures(sample),
                not fits,
                -_told(image_kind, self.hints),
                -total,
                bool(re.search("orig|raw", image_kind)),
                f"{image_kind}, {mask_kind}",
            )
            options.append(_Option(total, rank, taken))
        most = max((option.cases for option in options), default=0)
        best = min((option for option in options if option.cases * 2 >= most), key=lambda one: one.rank, default=None)
        return best.roles if best else []

    def _fits(self, images: Mapping[str, Sequence[str]], masks: Mapping[str, Sequence[str]]) -> bool:
        """Whether a case's image and mask are on one grid."""
        for key in sorted(images.keys() & masks.keys())[:3]:
            try:
                image, mask = grid_of(self.data / images[key][0]), grid_of(self.data / masks[key][0])
            except Exception:  # a damaged file says nothing; it is told later
                continue
            if grid_problem(image, mask) is None:
                return True
        return False

    def _count_structures(self, names: Iterable[str]) -> int:
        counts = [0]
        for name in names:
            if name not in self._structures:
                try:
                    self._structures[name] = len(set(mask_values(self.data / name)) - {0})
                except Exception:  # told later, case by case
                    self._structures[name] = 0
            counts.append(self._structures[name])
        return max(counts)

    def _fill(
        self,
        pairing: Pairing,
        chosen: Sequence[tuple[Role, Role]],
        roles: Mapping[Role, Mapping[str, Sequence[str]]],
    ) -> None:
        images, masks = {image for image, _ in chosen}, {mask for _, mask in chosen}
        cases = set()
        for image, mask in chosen:
            for key in sorted(roles[image].keys() & roles[mask].keys(), key=natural_key):
                one, *more = roles[image][key]
                other, *others = roles[mask][key]
                pairing.unused[SECOND] += [*more, *others]
                place = next((found[1] for part in reversed(image[0]) if (found := _SPLIT_PART.fullmatch(part))), "")
                pairing.pairs.append(Pair(one, other, key, place))
                cases.add(key)
            pairing.unused[NO_MASK] += [
                name for key in roles[image].keys() - roles[mask].keys() for name in roles[image][key]
            ]
            pairing.unused[NO_IMAGE] += [
                name for key in roles[mask].keys() - roles[image].keys() for name in roles[mask][key]
            ]
        for role in roles.keys() - images - masks:
            names = [name for members in roles[role].values() for name in members]
            if self.kind(role, names) == "mask":
                pairing.unused[OTHER_MASK] += names
            elif roles[role].keys() & cases and _family(role) not in {_family(image) for image in images}:
                pairing.unused[OTHER_IMAGE] += names
            else:
                pairing.unused[UNLABELLED] += names


_SPLIT_PART = re.compile(
    r"(?:.*[-_\d]|images?|imgs?)?(train(?:ing)?|test(?:ing)?|valid(?:ation)?|val|dev|(?<=s)t[rs])", re.IGNORECASE
)


def _family(role: Role) -> str:
    """A role without its split and numbers: `Training/img` and `Testing/img` are of one family."""
    for part in reversed(role[0]):
        if word := _SPLIT_WORD.sub(" ", part).lower().strip():
            return f"{word} {role[1]}".strip()
    return role[1]


def _families(pair: Sequence[Role]) -> tuple[str, ...]:
    return tuple(sorted(_family(role) for role in pair))


def _told(kind: str, hints: str) -> float:
    """Share of the words of a kind that the datacard uses; `mask` or `image` tell no kind from another."""
    words = {word for word in re.findall(r"[a-z0-9]{3,}", kind) if not (word.isalpha() and words_of(word))} - {"and"}
    return sum(word in hints for word in words) / max(1, len(words))


def _in(folders: int) -> str:
    return ("", ", in the folder of the case", ", in the folders of the case")[folders]
