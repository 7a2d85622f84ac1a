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
