"""What each service may do in the object store. Agents do nothing there and get no credentials at all.

Content lies under its hash, so buckets are the borders: `work` holds workspaces (the Data Engineer's index with all
labels among them), `data` uploads and the training view, `sealed` the test samples, `packages` models, predictions and
scores, `pictures` what a report shows of test cases, so that the gateway need not see the test set. What later roles
see of them is what the runner mounts.
"""

from collections.abc import Mapping
from typing import Literal

from shared.contracts.base import Service

Access = Literal["read", "write"]

RIGHTS: Mapping[Service, Mapping[str, tuple[Access, ...]]] = {
    "gateway": {"work": ("read",), "data": ("read", "write"), "packages": ("read",), "pictures": ("read",)},
    "scorer": {
        "work": ("read",),
        "data": ("read", "write"),
        "sealed": ("read", "write"),
        "packages": ("read", "write"),
    },
    "tool_runner": dict.fromkeys(("work", "data", "sealed", "packages", "pictures"), ("read", "write")),
}
"""Service -> bucket -> access. Writing is adding: nothing of ours overwrites or deletes an object."""
