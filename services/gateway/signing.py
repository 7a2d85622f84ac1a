"""The operator's Ed25519 key: made once, signs what is delivered, and is checked where a package is used.

A signature is 64 plain bytes, so that other tools can check it: `openssl pkeyutl -verify -pubin -inkey KEY.pub -rawin
-in provenance.json -sigfile provenance.sig`.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from shared.embedded.processes import write_private
from shared.errors import UserError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


class Signer:
    """Holds a private key. `id` tells keys apart: 16 hexadecimal digits of the public key's SHA-256."""

    def __init__(self, key: "Ed25519PrivateKey") -> None:
        self._key, self.id = key, _id(key.public_key())

    @classmethod
    def of(cls, path: Path | None) -> "Signer | None":
        """None without a path. Raises UserError for a file that is no private Ed25519 key, or that others may read."""
        if path is None:
            return None
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        content = _read(path, "M3_SIGNING_KEY")
        if path.stat().st_mode & 0o077:
            raise UserError(f"The signing key {path} can be read by others: chmod 600 {path}")
        try:
            key = load_pem_private_key(content, None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise UserError(f"{path} is no private Ed25519 key without a password: make one with `m3builder keys new`.")
        return cls(key)

    def sign(self, content: bytes) -> bytes:
        return self._key.sign(content)


class PublicKey:
    def __init__(self, key: "Ed25519PublicKey") -> None:
        self._key, self.id = key, _id(key)

    @classmethod
    def of(cls, path: Path) -> "PublicKey":
        """Raises UserError for a file that is no public Ed25519 key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            key = load_pem_public_key(_read(path, "--key"))
        except ValueError:
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise UserError(f"{path} is no public Ed25519 key (`m3builder keys new` writes it as *.pub).")
        return cls(key)

    def signed(self, content: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, content)
        except InvalidSignature:
            return False
        return True


def new_key(path: Path) -> tuple[Path, str]:
    """Write a private key to `path` (mode 0600) and its public key beside it, whose path and id are returned.

    Raises UserError where one of them exists: what it signed could not be checked any more.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    public = path.with_name(f"{path.name}.pub")
    for one in (path, public):
        if one.exists():
            raise UserError(f"{one} exists. Name another file; a key that has signed something is not replaced.")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = Ed25519PrivateKey.generate()
    write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return public, _id(key.public_key())


def _id(key: "Ed25519PublicKey") -> str:
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def _read(path: Path, named: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"The key {path} ({named}) cannot be read: {error.strerror}.") from None
