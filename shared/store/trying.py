"""Whether a user of the store may do what its service has to, found out by doing it."""

import io
from dataclasses import dataclass
from typing import Any

from shared.errors import UserError
from shared.store.rights import REMOVES, Access


@dataclass(frozen=True)
class Attempt:
    """One access to one bucket, on an object of no bytes that is no content of ours and is swept as such."""

    endpoint: str
    bucket: str
    access: Access
    service: str
    user: str

    def make(self, client: Any) -> None:
        """Raises UserError, with what to change, where there is no such bucket or this is refused."""
        from minio.error import S3Error

        key = f"tried/{self.service}"
        try:
            if self.access == "write":
                client.put_object(self.bucket, key, io.BytesIO(), 0)
                if self.service in REMOVES:
                    client.remove_object(self.bucket, key)
            elif self.access == "read":
                client.get_object(self.bucket, key).close()
            else:
                next(client.list_objects(self.bucket), None)
        except S3Error as error:
            if error.code == "NoSuchBucket":
                raise UserError(
                    f"The bucket {self.bucket} is not in the object store at {self.endpoint}: make it with "
                    "`python -m shared.bus`, or correct M3_S3_BUCKET_PREFIX."
                ) from None
            if error.code == "AccessDenied":
                raise UserError(
                    f"The object store at {self.endpoint} does not let the user {self.user!r} {self.access} the bucket "
                    f"{self.bucket}: give this user what `python -m shared.bus --rights` says of {self.service}, "
                    "or set M3_S3_ACCESS_KEY and M3_S3_SECRET_KEY to a user that has it."
                ) from None
            if error.code != "NoSuchKey":
                raise
