"""A key pair of its own for a server whose parts talk to each other over TLS, so that nobody else can join in."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from shared.embedded.processes import write_private

DAYS = 3650


def write_key_pair(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a fresh self-signed certificate for loopback and its key (0600) as `<name>.crt` and `<name>.key`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "m3builder")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    for path, content in zip(paths, (certificate.public_bytes(serialization.Encoding.PEM), private), strict=True):
        write_private(path, content.decode())
    return paths
