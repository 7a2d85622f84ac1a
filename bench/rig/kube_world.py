"""What a hospital's cluster has before the chart comes: simulated nodes, classes, definitions, secrets, claims."""

import contextlib
import json
from pathlib import Path

import yaml

from bench.rig.kube import Api, Object, until

RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
SERVICES = ("gateway", "task_manager", "data_engineer", "module_architect", "model_trainer", "scorer", "tool_runner")
STORE_USERS = ("m3builder", "gateway", "scorer", "tool_runner")
CLAIMS = ("datasets", "radiology", "research")
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def home(one: Object, namespace: str = "") -> str:
    """Where the API server keeps objects of this kind."""
    version, kind = one["apiVersion"], one["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}es" if kind.endswith("s") else f"{kind}s"
    return f"/api{'s' if '/' in version else ''}/{version}/{f'namespaces/{namespace}/' if namespace else ''}{plural}"


def furnish(api: Api, definitions: Path) -> None:
    """Two nodes without GPUs, one with a GPU, four whose GPUs are MIG slices; classes; KEDA and gateways defined."""
    gpu, mig = {"nvidia.com/gpu": "1"}, {"nvidia.com/mig-3g.71gb": "4"}
    nodes = [_node(f"plain-{number}") for number in range(2)]
    nodes.append(_node("gpu-0", {"nvidia.com/gpu.present": "true"}, gpu))
    nodes += [_node(f"mig-{number}", {"nvidia.com/gpu.product": "NVIDIA-H200"}, mig) for number in range(4)]
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "kubernetes.io/host-path"}
    classes = [
        {**storage, "metadata": {"name": name, "annotations": default if name == "standard" else {}}}
        for name in ("standard", "ceph-block", "local-nvme")
    ]
    batch = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "batch"}, "value": 10}
    crds = [yaml.safe_load(file.read_text()) for file in sorted(definitions.glob("*.yaml"))]
    for one in (*nodes, *classes, batch, *crds):
        api.make(home(one), one)
    for one in crds:
        kind = one["spec"]
        until(kind["names"]["kind"], 60, lambda kind=kind: any(  # new kinds are not served at once
            served["name"] == kind["names"]["plural"]
            for version in kind["versions"] if version["served"]
            for served in api.ask("GET", f"/apis/{kind['group']}/{version['name']}")["resources"]
        ))  # fmt: skip


def make_namespace(api: Api, name: str) -> None:
    meta = {"name": name, "labels": RESTRICTED}
    api.make("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})


def fill_namespace(api: Api, name: str) -> None:
    """The secrets and claims that docs/install.md has one create."""
    passwords = {user: "m123" for user in ("m3builder", *SERVICES)}
    keys = {f"{user}-{part}-key": "s" * 24 for user in STORE_USERS for part in ("access", "secret")}
    tls = {"tls.crt": "", "tls.key": ""}
    for secret, data in (
        ("m3builder-nats", passwords),
        ("m3builder-store", keys),
        ("m3builder-gateway", {"token": "t" * 32}),
        ("m3builder-signing", {"signing.key": "k"}),
        ("m3builder-model", {"ANTHROPIC_API_KEY": "k"}),
        ("m3builder-tls", tls),
        ("hospital-ca", {"ca.crt": "c"}),
        ("registry", {".dockerconfigjson": json.dumps({"auths": {}})}),
    ):
        kind = "kubernetes.io/tls" if data is tls else "kubernetes.io/dockerconfigjson" if secret == "registry" else ""
        body = {"metadata": {"name": secret}, "stringData": data} | ({"type": kind} if kind else {})
        api.make(f"/api/v1/namespaces/{name}/secrets", body)
    room = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for claim in CLAIMS:
        api.make(f"/api/v1/namespaces/{name}/persistentvolumeclaims", {"metadata": {"name": claim}, "spec": room})


def everything(api: Api, namespace: str) -> set[str]:
    """Kind and name of all objects in a namespace, of every kind that the API server knows, but events."""
    groups = [group["preferredVersion"]["groupVersion"] for group in api.ask("GET", "/apis")["groups"]]
    found = set()
    for root in ("/api/v1", *(f"/apis/{group}" for group in groups)):
        for kind in api.ask("GET", root)["resources"]:
            if kind["namespaced"] and "list" in kind["verbs"] and kind["kind"] != "Event":
                path = f"{root}/namespaces/{namespace}/{kind['name']}"
                [listed] = until(path, 30, lambda path=path: [api.items(path)])  # new kinds are not served at once
                found |= {f"{kind['kind']} {name}" for name in listed}
    return found


def tidy(api: Api) -> None:
    """Removes the empty folders that were made as volumes."""
    for one in api.items("/api/v1/persistentvolumes").values():
        with contextlib.suppress(OSError):
            Path(one["spec"]["hostPath"]["path"]).rmdir()


def _node(name: str, labels: dict[str, str] | None = None, more: dict[str, str] | None = None) -> Object:
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "4Ti"} | (more or {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name} | (labels or {})},
        "spec": {"taints": [GPU_TAINT] if more else []},
        "status": {"allocatable": room, "capacity": room},
    }
