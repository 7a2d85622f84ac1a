"""TLS towards bus and store: whom we trust, and what we show."""

import ssl

from shared.errors import UserError
from shared.settings import Settings


def context(settings: Settings) -> ssl.SSLContext:
    """Checks a server's certificate and its name, and shows our certificate to a server that asks for one.

    Raises UserError that names the setting whose file cannot be used.
    """
    try:
        # Without a file: the authorities of the machine, or of SSL_CERT_FILE.
        made = ssl.create_default_context(cafile=settings.tls_ca_file)
    except OSError as error:
        raise UserError(
            f"M3_TLS_CA_FILE is {settings.tls_ca_file}, which is no file of certificates ({error})."
        ) from None
    if settings.tls_certificate:
        try:
            made.load_cert_chain(settings.tls_certificate, settings.tls_key)
        except OSError as error:
            raise UserError(
                f"M3_TLS_CERTIFICATE is {settings.tls_certificate} and M3_TLS_KEY {settings.tls_key}, which are no "
                f"certificate with its key ({error})."
            ) from None
    return made


def refuse_plain_text(settings: Settings, name: str, address: str, scheme: str) -> None:
    """Raise UserError where authorities were named and the address of the setting `name` would go without TLS."""
    if settings.tls_ca_file and not address.startswith(f"{scheme}://"):
        raise UserError(
            f"{name} is {address!r}, plain text, while M3_TLS_CA_FILE says that servers are to be checked: "
            f"write {scheme}://... or unset M3_TLS_CA_FILE."
        )
