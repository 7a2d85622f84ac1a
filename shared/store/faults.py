"""What goes wrong between us and an object store, said as one of our errors with what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from shared.errors import M3Error, NotFound, ToolBroken, Unavailable, UserError

_CREDENTIALS = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidSecurity", "ExpiredToken"}
_MISSING = {"NoSuchKey", "NoSuchBucket", "NoSuchVersion"}
_BUSY = {"InternalError", "ServiceUnavailable", "SlowDown", "RequestTimeout", "OperationAborted", "TooManyRequests"}
_FULL = {"XMinioStorageFull", "QuotaExceeded", "InsufficientStorage", "XAmzQuotaExceeded"}


@contextmanager
def explained(what: str, endpoint: str) -> Iterator[None]:
    """Translate errors of minio-py, urllib3 and the local disk; `what` says what was being done.

    Unavailable is what passes by itself, or once somebody starts the server.
    """
    from minio.error import InvalidResponseError, MinioException, S3Error, ServerError
    from urllib3.exceptions import HTTPError, SSLError

    try:
        yield
    except M3Error:
        raise
    except S3Error as error:
        raise _of_server(error.code or "", error.message or "", what, endpoint) from None
    except (InvalidResponseError, ServerError) as error:
        # A proxy in front, or a server that is just starting or stopping.
        kind = Unavailable if _status(error) >= 500 else ToolBroken
        raise kind(f"{what}: {endpoint} answered, but not as an S3 server does: {error}") from None
    except MinioException as error:
        raise ToolBroken(f"{what}: {endpoint} answered, but not as an S3 server does: {error}") from None
    except SSLError as error:
        raise Unavailable(
            f"{what}: the object store at {endpoint} cannot be trusted ({error}). Check M3_S3_ENDPOINT, M3_TLS_CA_FILE "
            "for its authority, and M3_TLS_CERTIFICATE if it asks for ours."
        ) from None
    except HTTPError as error:
        cause = getattr(error, "reason", None) or error
        raise Unavailable(
            f"{what}: the object store at {endpoint} does not answer ({cause}). "
            "Start it (`m3builder up` starts the embedded one) or correct M3_S3_ENDPOINT."
        ) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ToolBroken(f"{what}: the local disk is full ({error.filename or ''}). Free some space.") from None
        raise


def _of_server(code: str, message: str, what: str, endpoint: str) -> M3Error:
    if code in _CREDENTIALS:
        return UserError(
            f"{what}: the object store at {endpoint} refused the credentials ({code}). "
            "Set M3_S3_ACCESS_KEY and M3_S3_SECRET_KEY to a key that may read and write our buckets."
        )
    if code in _MISSING:
        return NotFound(f"{what}: it is not in the object store at {endpoint} ({code}).")
    if code == "RequestTimeTooSkewed":
        return UserError(f"{what}: this machine's clock and that of {endpoint} differ too much. Set the clocks.")
    if code == "BadRequest" and endpoint.startswith("http:"):
        return ToolBroken(
            f"{what}: {endpoint} calls the request bad ({message}). If it speaks TLS, M3_S3_ENDPOINT must say https."
        )
    if code in _FULL:
        return ToolBroken(f"{what}: the object store at {endpoint} is full ({code}). Give it more space.")
    kind = Unavailable if code in _BUSY else ToolBroken
    return kind(
        f"{what}: the object store at {endpoint} failed ({code}: {message}). "
        "Look at its log; a full disk shows here too."
    )


def _status(error: Exception) -> int:
    """HTTP status of an answer that was no S3 error; each of minio-py's classes keeps it in another attribute."""
    return int(getattr(error, "_code", None) or getattr(error, "status_code", None) or 0)
