"""The Snowball stemmer for English (Porter2), by its published description: `effusions` and `effusion` share a stem.

The version that METEOR 1.5 brings; words are lower case.
"""

import re
from functools import lru_cache

_WHOLE = {
    "skis": "ski", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie", "idly": "idl", "gently": "gentl",
    "ugly": "ugli", "early": "earli", "only": "onli", "singly": "singl",
    **{word: word for word in ("sky", "news", "howe", "atlas", "cosmos", "bias", "andes")},
}  # fmt: skip
_AFTER_S = frozenset(("inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"))
_STEP_2 = {
    "ational": "ate", "ization": "ize", "fulness": "ful", "ousness": "ous", "iveness": "ive", "tional": "tion",
    "biliti": "ble", "lessli": "less", "entli": "ent", "ation": "ate", "alism": "al", "aliti": "al", "ousli": "ous",
    "iviti": "ive", "fulli": "ful", "enci": "ence", "anci": "ance", "abli": "able", "izer": "ize", "ator": "ate",
    "alli": "al", "bli": "ble", "ogi": "og", "li": "",
}  # fmt: skip
_STEP_3 = {
    "ational": "ate", "tional": "tion", "alize": "al", "icate": "ic", "iciti": "ic", "ative": "", "ical": "ic",
    "ness": "", "ful": "",
}  # fmt: skip
_STEP_4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "ion",
    "al", "er", "ic",
)  # fmt: skip
# A y that is no vowel is written Y meanwhile.
_VOWEL, _OTHER = "[aeiouy]", "[^aeiouy]"
_REGION = re.compile(f".*?{_VOWEL}{_OTHER}")
_SHORT = re.compile(f"(?:^|.*{_OTHER}){_VOWEL}[^aeiouywxY]$|^{_VOWEL}{_OTHER}$")


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    if len(word) <= 2:
        return word
    if word in _WHOLE:
        return _WHOLE[word]
    word = re.sub("(^|[aeiouy])y", r"\1Y", word.removeprefix("'"))
    start = re.match("gener|commun|arsen", word) or _REGION.match(word)
    first = start.end() if start else len(word)
    again = _REGION.match(word, first)
    second = again.end() if again else len(word)
    word = re.sub("'s'$|'s$|'$", "", word)
    word = _plural(word)
    if word in _AFTER_S:
        return word
    word = _past(word, first)
    word = re.sub(f"(?<=.)({_OTHER})[yY]$", r"\1i", word)
    word = _replaced(word, _STEP_2, first, second)
    word = _replaced(word, _STEP_3, first, second)
    word = _cut(word, second)
    if word.endswith("e"):
        short = _SHORT.match(word[:-1])
        word = word[:-1] if len(word) > second or (len(word) > first and not short) else word
    elif word.endswith("ll") and len(word) > second:
        word = word[:-1]
    return word.lower()


def _plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and re.search(_VOWEL, word[:-2]):
        return word[:-1]
    return word


def _past(word: str, first: int) -> str:
    if word.endswith(("eed", "eedly")):
        cut = word.removesuffix("ly")
        return cut[:-1] if len(cut) - 3 >= first else word
    match = re.match(f"(.*{_VOWEL}.*?)(?:ingly|edly|ing|ed)$", word)
    if not match:
        return word
    word = match[1]
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if re.search(r"(bb|dd|ff|gg|mm|nn|pp|rr|tt)$", word):
        return word[:-1]
    return word + "e" if len(word) <= first and _SHORT.match(word) else word


def _replaced(word: str, endings: dict[str, str], first: int, second: int) -> str:
    """The longest ending of the word that is listed, replaced if its rule allows."""
    for ending, instead in endings.items():
        if word.endswith(ending):
            rest = word.removesuffix(ending)
            allowed = len(rest) >= (second if ending == "ative" else first)
            if ending == "ogi":
                allowed &= rest.endswith("l")
            if ending == "li":
                allowed &= rest.endswith(tuple("cdeghkmnrt"))
            return rest + instead if allowed else word
    return word


def _cut(word: str, second: int) -> str:
    for ending in _STEP_4:
        if word.endswith(ending):
            rest = word.removesuffix(ending)
            return rest if len(rest) >= second and (ending != "ion" or rest.endswith(("s", "t"))) else word
    return word
