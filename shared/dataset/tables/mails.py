"""Mails beside a dataset, which tell what was exchanged or withdrawn since."""

import email
import email.policy
from pathlib import Path

from shared.dataset.tables.cells import TableError

MAIL = ".eml"
_MOST = 1 << 20
"""Bytes."""


def read_mail(path: Path) -> str:
    """Subject, date and plain text. Raises TableError."""
    try:
        if path.stat().st_size > _MOST:
            raise TableError(f"{path.name} is larger than {_MOST >> 20} MB: save it without its attachments")
        mail = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
        body = mail.get_body(("plain",))
        text = body.get_content() if body is not None else ""
    except (OSError, LookupError, ValueError, KeyError) as error:
        raise TableError(f"{path.name} cannot be read as a mail ({error}); save it as a text") from None
    head = [f"{name}: {mail[name]}" for name in ("Subject", "Date") if mail[name]]
    return "\n".join([*head, "", text.strip()]).strip()
