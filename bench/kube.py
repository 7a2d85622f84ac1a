"""The chart against a real Kubernetes API server, one line a step.

`python -m bench.kube --bin FOLDER [EXAMPLE ...]` with the FOLDER that `deploy/kube.sh FOLDER` fills. etcd, the API
server, its controllers and scheduler start on loopback; nodes are simulated: kwok says of every pod that it runs and
is ready. So this shows what the API server accepts, what controllers and scheduler make of it, and what is refused in
whose words; not the programs in the pods (tests/deploy/test_pods.py), nor that a network plugin keeps the policies.
"""

import argparse
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.rig.kube import Api, ControlPlane, Refused, until
from bench.rig.kube_release import EXAMPLES, Release
from bench.rig.kube_world import fill_namespace, furnish, make_namespace, tidy

WORDS = 420
TRIALS = ("no-gpu",)
ENFORCE = "pod-security.kubernetes.io/enforce"
UNMASKED = {
    "metadata": {"name": "unmasked"},
    "spec": {
        "hostUsers": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "unmasked",
                "image": "busybox:1",
                "securityContext": {
                    "procMount": "Unmasked",
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    },
}
"""All that `restricted` asks for, but for what bubblewrap wants."""


@dataclass
class Table:
    failed: int = 0

    def row(self, step: str, verdict: str, words: str = "") -> None:
        self.failed += verdict == "FAIL"
        print(f"{step:45} {verdict:9}{textwrap.shorten(words, WORDS, placeholder=' ...')}", flush=True)

    def ok(self, step: str, done: Callable[[], str]) -> None:
        try:
            self.row(step, "ok", done())
        except (Refused, TimeoutError, AssertionError) as error:
            self.row(step, "FAIL", str(error))

    def refused(self, step: str, tried: Callable[[], object], said: str) -> None:
        try:
            tried()
        except Refused as error:
            self.row(step, "refused" if said in str(error) else "FAIL", str(error))
        else:
            self.row(step, "FAIL", f"went through, where this was to be said: {said}")


def whole_life(table: Table, release: Release) -> None:
    """From an empty namespace to what an uninstall leaves."""
    print(f"\n== {release.namespace}")
    make_namespace(release.api, release.namespace)
    table.refused("install without secrets and claims", release.install, "create it first")
    fill_namespace(release.api, release.namespace)
    release.remember()
    table.ok("every object, strictly, tried only", release.strictly)
    table.ok("helm install", release.install)
    table.ok("Deployments ready", release.ready)
    table.ok("the network is closed by default", release.policies)
    table.ok("service accounts may do nothing", release.accounts)
    table.ok("helm test", lambda: release.helm("test", "m3builder")[:0])
    table.ok("helm upgrade: two images and a value", lambda: upgraded(release))
    table.ok("helm rollback", lambda: rolled_back(release))
    table.ok("Model Trainer alone to 5 (helm)", lambda: release.alone(5, release.scale_by_helm))
    table.ok("Model Trainer alone to 2 (scale)", lambda: release.alone(2, release.scale_by_hand))
    {"no-gpu": misuse, "one-gpu": variants, "hospital": jobs_and_budgets}[release.namespace](table, release)
    table.ok("helm uninstall", lambda: release.uninstalled(trial=release.namespace in TRIALS))
    table.ok("helm install on what was left", release.install)


def upgraded(release: Release) -> str:
    before = release.pods()
    release.upgrade("image.services.tag=0.1.1", "image.runner.tag=0.1.1", "services.task-manager.replicas=2")
    images = {one["spec"]["template"]["spec"]["containers"][0]["image"] for one in release.deployments().values()}
    kept = sorted({part for part, uid in before if (part, uid) in release.pods()})
    assert release.replicas()["task-manager"] == "2/2" and sum(one.endswith(":0.1.1") for one in images) == 2
    assert "scorer" in kept and not {"gateway", "task-manager", "runner-build"} & set(kept), kept
    return f"{', '.join(sorted(images))}; task-manager 2/2; pods left as they were: {', '.join(kept)}"


def rolled_back(release: Release) -> str:
    release.helm("rollback", "m3builder", "1", "--wait", "--timeout", "60s")
    release.settle()
    images = {one["spec"]["template"]["spec"]["containers"][0]["image"] for one in release.deployments().values()}
    assert release.replicas()["task-manager"] == "1/1" and not any(one.endswith("0.1.1") for one in images), images
    return f"{', '.join(sorted(images))}; task-manager 1/1"


def misuse(table: Table, release: Release) -> None:
    """Wrong values, pods that the namespace does not take, and a person who may do little."""
    for wrong, said in (
        ("services.model-trainer.replica=2", "additional properties 'replica' not allowed"),
        ("nats.trail.enabled=true", "additional properties 'trail' not allowed"),
        ("services.runner-train.scratch.storageClassName=fast", "has no StorageClass fast"),
        ("services.runner-train.priorityClassName=urgent", "has no PriorityClass urgent"),
        ("gateway.tokenSecret=token", "names the secret token, which is not in the namespace"),
        ("datasets[0].claim=scans", "the volume claim scans is not in the namespace"),
        ("services.runner-train.autoscaling.kind=job", "nats.monitoringEndpoint is empty"),
    ):
        table.refused(
            f"--set {wrong.partition('=')[0].removeprefix('services.')}",
            lambda wrong=wrong: release.upgrade(wrong),
            said,
        )
    pod = {"image": "busybox:1", "name": "shell", "securityContext": {"privileged": True}}
    body = {"metadata": {"name": "shell"}, "spec": {"hostNetwork": True, "containers": [pod]}}
    where = f"/api/v1/namespaces/{release.namespace}/pods"
    table.refused("a privileged pod", lambda: release.api.make(where, body), 'violates PodSecurity "restricted')
    owner = Release(release.plane, release.api, "no-gpu", "of-a-department", "installer")
    make_namespace(owner.api, owner.namespace)
    fill_namespace(owner.api, owner.namespace)
    table.refused("install by one without rights", owner.install, 'User "installer" cannot')
    owner.make_admin()
    table.ok("install by an admin of the namespace alone", owner.install)
    table.refused("the same, with a class named", lambda: owner.upgrade("gateway.storage.storageClassName=standard"),
                  'User "installer" cannot get resource "storageclasses"')  # fmt: skip
    table.ok(
        "the same with checkCluster=false",
        lambda: owner.upgrade("services.scorer.scratch.storageClassName=standard", "checkCluster=false"),
    )


def variants(table: Table, release: Release) -> None:
    """What no example turns on."""
    trainer = "services.model-trainer.autoscaling"

    def scaled_by_load() -> str:
        release.upgrade(f"{trainer}.kind=hpa", f"{trainer}.min=2")
        found = until("the autoscaler's word", 60, lambda: release.hpa("model-trainer"))
        return f"model-trainer {release.replicas()['model-trainer']}; {found}"

    def bubblewrapped() -> str:
        release.upgrade("sandbox.isolation=bwrap", "sandbox.seccompProfile=profiles/m3builder.json")
        spec = release.deployments()["runner-build"]["spec"]["template"]["spec"]
        return f"hostUsers {spec['hostUsers']}, {spec['containers'][0]['securityContext']['seccompProfile']}"

    table.ok("HPA for the Model Trainer", scaled_by_load)
    where = f"/api/v1/namespaces/{release.namespace}"
    table.refused(
        "a pod with an unmasked /proc", lambda: release.api.make(f"{where}/pods", UNMASKED), "violates PodSecurity"
    )
    table.refused("sandbox.isolation bwrap, restricted", bubblewrapped, "which wants an unmasked /proc")
    release.api.ask("PATCH", where, {"metadata": {"labels": {ENFORCE: "baseline"}}})
    table.ok("sandbox.isolation bwrap, baseline", bubblewrapped)
    release.upgrade()
    release.api.ask("PATCH", where, {"metadata": {"labels": {ENFORCE: "restricted"}}})
    release.upgrade("services.runner-train.gpu.resource=nvidia.com/mig-9g.1gb", wait=False)
    table.ok(
        "a GPU that no node has", lambda: until("a pod that waits", 30, lambda: release.unready("runner-train"))[0]
    )
    table.ok("helm rollback", lambda: rolled_back(release))


def jobs_and_budgets(table: Table, release: Release) -> None:
    table.ok("a training's Job, as KEDA makes it", release.training)
    table.ok("Model Trainer alone to 4 (helm)", lambda: release.alone(4, release.scale_by_helm))
    table.ok("PodDisruptionBudgets", release.budgets)
    table.ok("all Model Trainers evicted at once", lambda: release.evicted_at_once("model-trainer"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, required=True, help="what deploy/kube.sh made")
    parser.add_argument(
        "example", nargs="*", default=EXAMPLES, help="no-gpu, one-gpu, hospital; all of them by default"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(asked.bin.resolve(), Path(folder))
        api = plane.start()
        try:
            table = begin(api, plane)
            for example in asked.example:
                whole_life(table, Release(plane, api, example))
            tidy(api)
        finally:
            plane.stop()
    print(f"\n{table.failed} step(s) failed")
    return int(table.failed > 0)


def begin(api: Api, plane: ControlPlane) -> Table:
    table = Table()
    table.row("API server", "ok", api.ask("GET", "/version")["gitVersion"])
    furnish(api, plane.programs / "crd")

    def nodes() -> str:
        found = api.items("/api/v1/nodes").values()
        ready = [
            one["metadata"]["name"]
            for one in found
            if any(told["type"] == "Ready" and told["status"] == "True" for told in one["status"].get("conditions", ()))
        ]
        return ", ".join(ready) if len(ready) == len(found) else ""

    table.ok("nodes (simulated) ready", lambda: until("every node", 60, nodes))
    return table


if __name__ == "__main__":
    raise SystemExit(main())
