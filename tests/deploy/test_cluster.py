"""The chart on a real API server with Pod Security `restricted`: installed, changed, taken back, removed."""

import base64
import subprocess
from collections.abc import Iterator

import pytest

from tests.deploy.chart import CHART, HELM
from tests.deploy.kubernetes import MISSING, Cluster, cluster, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        bool(MISSING or not HELM),
        reason=f"missing: {', '.join([*MISSING, *([] if HELM else ['helm'])])} (deploy/kubernetes.sh builds them)",
    ),
]
SPACE = "/api/v1/namespaces/hospital"
USERS = (
    "m3builder",
    "gateway",
    "task_manager",
    "data_engineer",
    "module_architect",
    "model_trainer",
    "scorer",
    "tool_runner",
)
GPU = {"nvidia.com/gpu": "4"}


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("kubernetes")) as made:
        for name, more in (("cpu", {}), ("gpu", GPU)):
            size = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "4Ti"} | more
            labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.present": str(bool(more)).lower()}
            metadata = {"labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
            made.make("/api/v1/nodes", "Node", name, metadata=metadata, status={"capacity": size, "allocatable": size})
        restricted = {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
        made.make("/api/v1/namespaces", "Namespace", "hospital", metadata=restricted)
        until(lambda: made.call("GET", f"{SPACE}/serviceaccounts/default"))
        yield made


def helm(made: Cluster, *words: str, fails: bool = False) -> str:
    argv = [str(HELM), *words, "--namespace", "hospital", "--kubeconfig", str(made.kubeconfig)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_install_upgrade_rollback_uninstall(hospital: Cluster) -> None:
    example = ("-f", str(CHART / "examples" / "one-gpu.yaml"))
    told = helm(hospital, "install", "m3", str(CHART), *example, fails=True)
    for secret in ("m3builder-nats", "m3builder-store", "hospital-ca", "m3builder-gateway", "m3builder-tls"):
        assert f"names the secret {secret}, which is not in the namespace hospital: create it first" in told
    assert "the volume claim datasets is not in the namespace hospital" in told

    secrets = {
        "m3builder-nats": USERS,
        "m3builder-store": [
            f"{user}-{part}-key" for user in (*USERS[:2], *USERS[-2:]) for part in ("access", "secret")
        ],
        "hospital-ca": ["ca.crt"],
        "m3builder-gateway": ["wrong"],
        "m3builder-tls": ["tls.crt", "tls.key"],
    }
    for name, keys in secrets.items():
        data = {key: base64.b64encode(b"x").decode() for key in keys}
        hospital.make(f"{SPACE}/secrets", "Secret", name, data=data)
    claim = {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    hospital.make(f"{SPACE}/persistentvolumeclaims", "PersistentVolumeClaim", "datasets", spec=claim)
    strange = ("--set", "services.scorer.scratch.storageClassName=fast")
    told = helm(hospital, "install", "m3", str(CHART), *example, *strange, fails=True)
    assert "the secret m3builder-gateway (gateway.tokenSecret) has no key token: add it" in told
    assert "this cluster has no StorageClass fast" in told and "create it first" not in told
    hospital.call("DELETE", f"{SPACE}/secrets/m3builder-gateway")
    hospital.make(f"{SPACE}/secrets", "Secret", "m3builder-gateway", data={"token": "eA=="})

    # Nobody makes volumes here: two pods wait for theirs, all others run. The Job of the hook ran before them.
    said = helm(hospital, "install", "m3", str(CHART), *example, "--timeout", "5m")
    assert "helm test m3 -n hospital" in said
    ready = (
        "model-trainer",
        "task-manager",
        "data-engineer",
        "module-architect",
        "scorer",
        "runner-build",
        "runner-train",
    )
    until(lambda: all(_ready(hospital, name) == 1 for name in ready))
    pods = hospital.call("GET", f"{SPACE}/pods")["items"]
    [train] = [pod for pod in pods if pod["metadata"]["labels"]["app.kubernetes.io/component"] == "runner-train"]
    assert train["spec"]["nodeName"] == "gpu"
    policies = hospital.call("GET", "/apis/networking.k8s.io/v1/namespaces/hospital/networkpolicies")["items"]
    assert "m3-m3builder-default-deny" in {one["metadata"]["name"] for one in policies}

    # The Model Trainer alone, then trainings alone up to the GPUs that there are, then by an HPA.
    scaled = ("--set", "services.model-trainer.replicas=4", "--set", "services.runner-train.replicas=5")
    helm(hospital, "upgrade", "m3", str(CHART), *example, *scaled, "--set", "services.scorer.autoscaling.kind=hpa")
    until(lambda: _ready(hospital, "model-trainer") == 4 and _ready(hospital, "runner-train") == 4)
    assert _ready(hospital, "task-manager") == 1
    scalers = hospital.call("GET", "/apis/autoscaling/v2/namespaces/hospital/horizontalpodautoscalers")["items"]
    assert [one["spec"]["scaleTargetRef"]["name"] for one in scalers] == ["m3-m3builder-scorer"]
    budgets = hospital.call("GET", "/apis/policy/v1/namespaces/hospital/poddisruptionbudgets")["items"]
    assert "m3-m3builder-model-trainer" in {one["metadata"]["name"] for one in budgets}
    job = ("--set", "services.runner-train.autoscaling.kind=job")
    assert "this cluster has no KEDA" in helm(hospital, "upgrade", "m3", str(CHART), *example, *job, fails=True)

    helm(hospital, "rollback", "m3", "1")
    until(lambda: _ready(hospital, "model-trainer") == 1 and _ready(hospital, "runner-train") == 1)

    helm(hospital, "uninstall", "m3")
    until(lambda: not hospital.call("GET", "/apis/apps/v1/namespaces/hospital/deployments")["items"])
    claims = hospital.call("GET", f"{SPACE}/persistentvolumeclaims")["items"]
    assert {one["metadata"]["name"] for one in claims} == {"datasets", "m3-m3builder-gateway"}


def _ready(made: Cluster, name: str) -> int:
    path = f"/apis/apps/v1/namespaces/hospital/deployments/m3-m3builder-{name}"
    return int(made.call("GET", path)["status"].get("readyReplicas", 0))


def test_pod_security_refuses_what_the_chart_does_not_do(hospital: Cluster) -> None:
    """The wall that the chart fits into is there."""
    import urllib.error

    spec = {"containers": [{"name": "one", "image": "one:1"}]}
    with pytest.raises(urllib.error.HTTPError, match="403"):
        hospital.make(f"{SPACE}/pods", "Pod", "careless", spec=spec)
