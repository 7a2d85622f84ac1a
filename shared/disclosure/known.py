"""Words that are ours: found in our own sources, so an endpoint learns nothing of a hospital from them."""

import ast
import builtins
import keyword
import re
import sysconfig
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from pydoc_data.topics import topics

from shared.vocabulary.reading import plain, vocabulary

ROOT = Path(__file__).parents[2]
_ONE_AT_A_TIME = threading.Lock()
"""Python's parser does not bear two threads."""
WORD = re.compile(r"[^\W\d_]+")
CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CAPITAL = re.compile("[A-Z][a-z]+")
"""A class, or a person."""
_OF_A_LIBRARY = re.compile(r"\bnn\.([A-Z]\w+)")
"""Classes of networks, as a model is told."""
_PLAIN = re.compile(r"(?<![\w'])[a-z]{2,}(?![\w'])")
_SENTENCE = re.compile(r"[^\W\d_]+(?:[,.;:]? [^\W\d_]+)+")

_RESULTS = ("shared/contracts", "shared/dataset", "shared/imaging", "services/tool_runner/probes",
            "services/tool_runner/tools")  # fmt: skip
"""Their identifiers are what results of looking at data are made of."""
_CODE = ("shared/failures", "shared/training", "templates")
"""Their identifiers are what trainings print."""
_TOLD = ("shared/agent", "shared/models", "services/data_engineer", "services/module_architect",
         "services/model_trainer", "services/task_manager")  # fmt: skip
"""Their strings are what cores are told, too."""
_PYTHON = """
Traceback (most recent call last) no such file or directory is a directory not a directory permission denied file exists
could not convert string to float invalid literal for int() with base list index out of range string index out of range
object is not subscriptable object is not callable object is not iterable has no attribute object has no attribute
unsupported operand type(s) for division by zero not enough values to unpack expected got too many values to unpack
missing required positional argument got an unexpected keyword argument is not defined no module named
cannot import name invalid syntax unexpected indent unterminated string literal codec can't decode byte in position
invalid start byte
not found in axis are in the columns not in index all arrays must be of the same length shape mismatch
operands could not be broadcast together with shapes must be real number, not str the truth value of is ambiguous
extra inputs are not permitted field required input should be a valid input should be greater than less than or equal to
list should have at least at most items after validation not string should match pattern
exit code command not found the above exception was the direct cause of the following exception
during handling of the above exception, another exception occurred
"""
"""What Python and its libraries say of an error, without what they say it of."""
_IN_MODULES = 3
"""That have a word in a docstring, before it is English and no name."""
_DOCSTRING = re.compile(r'"""(.*?)"""', re.DOTALL)
_ENDING = re.compile("(?<=..)(?:e?s|e?d|ing|ly)$")
_OFTEN = 40
"""Pairs that a frequent word is part of."""
_FILES = """
images image labels label masks mask seg segmentation train training val valid validation test testing fold data dataset
subfolder subfolders
imagestr imagests labelstr labelsts nii gz dcm dicom png jpg jpeg tif tiff bmp csv tsv json jsonl xml yaml yml txt xlsx
npy npz mat nrrd mha mhd hdr img zip ct cta mr mri pet us xr cr dx mg t1 t2 t1w t2w t1ce t1c t1n t1gd t2f flair dwi adc
swi ap pa lateral frontal axial sagittal coronal left right baseline followup id uid name path file files folder split
class diagnosis report reports findings impression text sex age male female yes no true false none null nan
auc auroc macro micro balanced accuracy dice iou f1 bleu rouge meteor covid-19 covid19 sars-cov-2
ray rays xray numpy np pandas pd nibabel nib pydicom torch monai scipy sklearn skimage pil sitk os sys re json pathlib
"""
"""What files, columns and packages are called anywhere."""


@dataclass(frozen=True)
class Known:
    terms: frozenset[str]
    """Lower case: they pass wherever they stand."""
    code: frozenset[str]
    """And these do where there are no raw data."""
    english: frozenset[str]
    """All words of our texts, of Python's manual and of its library's docstrings: English."""
    frequent: frozenset[str]
    """Those that we write most often, such as `of`: in lower case they are nobody's name."""
    exact: frozenset[str]
    """Names as they are written, such as `float32` or `ValueError`."""
    pairs: frozenset[tuple[str, str]]
    """Words, in lower case, that follow each other in a text of ours: with its neighbour such a word passes."""

    def common(self, word: str) -> bool:
        """Whether it is a word of plain English in lower case, in whatever form."""
        bare = _ENDING.sub("", word)
        return word.islower() and not self.english.isdisjoint((word, bare, bare + "e"))


def known() -> Known:
    """Read from the sources that are installed: a second or two, once a process."""
    with _ONE_AT_A_TIME:
        return _known()


@cache
def _known() -> Known:
    exact: dict[str, set[str]] = {place: set() for place in (*_RESULTS, *_CODE, *_TOLD)}
    told: list[str] = [_PYTHON, " ".join(_PYTHON.split())]
    for place, path in _sources(exact):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            names, strings, docstrings = _python(text)
            capitals = {word for text in strings for word in WORD.findall(text) if not word.islower()}
            capitals |= set(_OF_A_LIBRARY.findall(text))
            exact[place] |= {name for name in names if not _CAPITAL.fullmatch(name)} | capitals
            told += [*strings, *docstrings]
        if path.suffix != ".py" or place in _CODE:
            told.append(text)
    manual = Counter(word for text in topics.values() for word in _PLAIN.findall(text))
    library = Counter(word for text in _docstrings() for word in set(_PLAIN.findall(text)))
    # What stands above the parts of a first message is written in shared/agent.
    ours = (exact[place] for place in (*_RESULTS, "shared/agent"))
    results = set().union(dir(builtins), keyword.kwlist, _FILES.split(), *ours)
    code = set().union(*(exact[place] for place in _CODE))
    both = frozenset(pairs(told))
    often = Counter(word for pair in both for word in pair)
    english = {*often, *(word for word, times in manual.items() if times > 1)}
    english.update(word for word, times in library.items() if times >= _IN_MODULES)
    return Known(
        terms=_words(results),
        code=_words(code),
        english=frozenset(english),
        frequent=frozenset(word for word, times in often.items() if times >= _OFTEN),
        exact=frozenset(results | code),
        pairs=both,
    )


def _docstrings() -> Iterator[str]:
    """Of Python's library, those of a module at a time."""
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        yield "\n".join(_DOCSTRING.findall(path.read_text(encoding="utf-8", errors="replace")))


def _words(names: Iterable[str]) -> frozenset[str]:
    """Lower case, whole and in parts; one letter says nothing."""
    parts = {part.lower() for name in names for word in WORD.findall(name) for part in CAMEL.findall(word)}
    return frozenset(one for one in parts | {name.lower() for name in names} if len(one) > 1)


def pairs(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Words that follow each other with a space, or the end of a line, between them."""
    for text in texts:
        for sentence in _SENTENCE.findall(re.sub(r"[ \t]*\n[ \t#>*-]*", " ", text)):
            words = WORD.findall(sentence.lower())
            yield from pairwise(words)


def medical(word: str) -> bool:
    """Whether a word is a term of radiology by itself."""
    return bool(_terms_of_radiology().fullmatch(plain(word).lower()))


@cache
def _terms_of_radiology() -> re.Pattern[str]:
    kinds = ("anatomy", "finding", "modality", "task")
    patterns = [one.pattern for kind in kinds if kind in vocabulary() for one in vocabulary()[kind].values()]
    return re.compile("|".join(patterns), re.IGNORECASE)


def _sources(places: Iterable[str]) -> Iterator[tuple[str, Path]]:
    for place in places:
        for path in sorted((ROOT / place).rglob("*")):
            if path.suffix in (".py", ".md", ".yaml") and path.is_file():
                yield place, path


def _python(text: str) -> tuple[set[str], list[str], list[str]]:
    """Identifiers of a source, its strings, and its docstrings."""
    names: set[str] = set()
    strings: list[str] = []
    docstrings: list[str] = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(value))):
                docstrings.append(value)
            case ast.Constant(value=str(value)):
                strings.append(value)
                # One word: a key, a format, a reason.
                names |= {value} if WORD.fullmatch(value) or re.fullmatch(r"\w{1,24}", value) else set()
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.keyword(arg=str(name)) | ast.ClassDef(name=name) | ast.alias(name=name):
                names.update(name.split("."))
            case _:
                pass
    # Each docstring was met a second time, as a constant.
    return names, [one for one in strings if one not in docstrings], docstrings
