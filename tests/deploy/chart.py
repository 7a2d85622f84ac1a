"""The chart and its rendered examples, read."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "helm" / "m3builder"
EXAMPLES = ("no-gpu", "one-gpu", "hospital")
HELM = os.environ.get("M3_HELM") or shutil.which("helm")
KUBECONFORM = shutil.which("kubeconform")
SCHEMAS = os.environ.get("M3_KUBERNETES_SCHEMAS")
Manifest = dict[str, Any]


def documents(text: str) -> list[Manifest]:
    """By kind and name: the order of a rendering means nothing."""
    return sorted(
        (one for one in yaml.safe_load_all(text) if one), key=lambda one: (one["kind"], one["metadata"]["name"])
    )


def rendered(example: str) -> list[Manifest]:
    return documents((CHART / "examples" / "rendered" / f"{example}.yaml").read_text())


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest, Manifest]]:
    """Of every workload: kind and name, the pod's metadata, its spec."""
    for one in manifests:
        spec = one.get("spec", {})
        template = spec.get("jobTargetRef", spec).get("template") if one["kind"] != "Pod" else one
        if template:
            yield f"{one['kind']} {one['metadata']['name']}", template["metadata"], template["spec"]


def edges(manifests: list[Manifest], component: str) -> set[str]:
    """Names of the policies by which pods of a component may reach something."""
    found = set()
    for one in manifests:
        if one["kind"] != "NetworkPolicy" or not one["spec"].get("egress"):
            continue
        selector = one["spec"]["podSelector"]
        wanted = selector["matchLabels"].get("app.kubernetes.io/component", component)
        allowed = [values["values"] for values in selector.get("matchExpressions", [])]
        if wanted == component and all(component in values for values in allowed):
            found.add(one["metadata"]["name"].removeprefix("m3builder-to-"))
    return found
