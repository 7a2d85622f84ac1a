"""What each service may do in the object store. Agents do nothing there and get no credentials at all.

Content lies under its hash, so buckets are the borders: `work` holds workspaces (the Data Engineer's rules among them),
`data` uploads and training views, `cases` every case in canonical form without its name, `sealed` the table of cases,
what their headers say, and the split, `packages` models, predictions and scores, `pictures` what a report shows of test
cases, so that the gateway need not see the test set. What later roles see of them is what the runner mounts.
"""

from collections.abc import Mapping
from typing import Literal

from shared.contracts.base import Service

Access = Literal["read", "write", "list"]

RIGHTS: Mapping[Service, Mapping[str, tuple[Access, ...]]] = {
    "gateway": {"work": ("read",), "data": ("read", "write"), "packages": ("read",), "pictures": ("read",)},
    "scorer": {
        "work": ("read",),
        "data": ("read", "write"),
        "cases": ("read",),
        "sealed": ("read", "write"),
        "packages": ("read", "write"),
    },
    "tool_runner": dict.fromkeys(
        ("work", "data", "cases", "sealed", "packages", "pictures"), ("read", "write", "list")
    ),
}
"""Service -> bucket -> access. Nothing of ours overwrites an object, and only the runner removes any, where the gateway
erases a run or dataset; a store that tells adding from deleting need let nobody else delete."""

REMOVES: tuple[Service, ...] = ("tool_runner",)
_ACTIONS = {"read": ("s3:GetObject",), "write": ("s3:PutObject", "s3:AbortMultipartUpload"), "list": ()}


def policy(service: Service, prefix: str) -> dict[str, object]:
    """The service's rights as a policy document of S3 (MinIO, Ceph); `prefix` is that of the buckets' names.

    A store that answers 403 where an object is missing and may not be listed (AWS) wants `s3:ListBucket` besides.
    """
    statements = []
    for bucket, access in RIGHTS.get(service, {}).items():
        on_objects = [action for one in access for action in _ACTIONS[one]]
        if service in REMOVES:
            on_objects.append("s3:DeleteObject")
        name = f"arn:aws:s3:::{prefix}{bucket}"
        statements.append({"Effect": "Allow", "Action": on_objects, "Resource": [f"{name}/*"]})
        if "list" in access:
            statements.append({"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [name]})
    return {"Version": "2012-10-17", "Statement": statements}
