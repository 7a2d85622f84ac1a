"""Whether a package on this machine is what was delivered, and who says so."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from services.gateway.provenance import PROVENANCE, SIGNATURE, Provenance, listed
from services.gateway.signing import PublicKey
from shared.errors import UserError


class Refused(UserError):
    """The package is not what was delivered, or the key at hand does not vouch for it."""


@dataclass(frozen=True)
class Verdict:
    """Of a package whose files are those that its provenance lists."""

    provenance: Provenance | None
    """None for a package of an earlier version, which has none."""
    signed: bool
    """Checked with a key that was given."""
    said: str
    """In a sentence."""


def verify(package: Path, key: Path | None) -> Verdict:
    """Blocks. Raises Refused, which names the file, for a changed, added or missing one; with a key also for a package
    that is not signed by it. Raises UserError for what is no package."""
    if package.is_symlink() or not (package / "predict.py").is_file():
        raise UserError(f"{package} is no folder of a package, as `m3builder fetch` makes one.")
    public = PublicKey.of(key) if key else None
    content, signature = _read(package / PROVENANCE), _read(package / SIGNATURE)
    if content is None:
        if public:
            raise Refused(f"{package} is not signed: it has no {PROVENANCE}.")
        return Verdict(None, False, f"unsigned: it has no {PROVENANCE}, so nobody can tell whether it was changed")
    try:
        made = Provenance.model_validate_json(content)
    except ValidationError:
        raise Refused(f"{PROVENANCE} was changed: it cannot be read.") from None
    if public:
        _vouched(public, made, content, signature)
    if faults := list(_faults(made.files, package)):
        raise Refused(f"{package} is not what was delivered: {'; '.join(faults[:10])}.")
    if public:
        return Verdict(made, True, f"good: every file is as delivered, signed by the key {public.id}")
    if signature is None:
        said = f"unsigned: the files are those that {PROVENANCE} lists, but anybody could have written it"
    else:
        said = f"not checked: it says that the key {made.key} signed it; give that key with --key or M3_VERIFY_KEY"
    return Verdict(made, False, said)


def _vouched(key: PublicKey, made: Provenance, content: bytes, signature: bytes | None) -> None:
    if signature is None:
        raise Refused(f"It is not signed: there is no {SIGNATURE}.")
    if not key.signed(content, signature):
        if made.key != key.id:
            raise Refused(f"It was signed by another key ({made.key}), not by {key.id}.")
        raise Refused(f"{PROVENANCE} or {SIGNATURE} was changed: the signature does not fit.")


def _faults(files: dict[str, str], package: Path) -> Iterator[str]:
    there = {name: digest for name, digest in listed(package).items() if name not in (PROVENANCE, SIGNATURE)}
    for name in sorted(files.keys() | there.keys()):
        if name not in there:
            yield f"{name} is missing"
        elif name not in files:
            yield f"{name} was added"
        elif files[name] != there[name]:
            yield f"{name} was changed"


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() and not path.is_symlink() else None
