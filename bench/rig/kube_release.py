"""A release of the chart in a namespace of its own, and what the API server tells about it."""

import json
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from bench.rig.kube import Api, ControlPlane, Object, Refused, until
from bench.rig.kube_world import everything, home

CHART = Path(__file__).resolve().parents[2] / "helm" / "m3builder"
EXAMPLES = ("no-gpu", "one-gpu", "hospital")
COMPONENT = "app.kubernetes.io/component"


class Release:
    def __init__(self, plane: ControlPlane, api: Api, example: str, namespace: str = "", user: str = "admin") -> None:
        self.plane, self.api, self.user = plane, api, user
        self.values = ("--values", str(CHART / "examples" / f"{example}.yaml"))
        self.namespace = namespace or example
        self.before: set[str] = set()

    def helm(self, *argv: str) -> str:
        where = ("--kubeconfig", str(self.plane.kubeconfig(self.user)), "--namespace", self.namespace)
        env = {"PATH": os.environ["PATH"], "HOME": str(self.plane.folder)}
        done = subprocess.run(
            [str(self.plane.programs / "helm"), *argv, *where], capture_output=True, text=True, check=False, env=env
        )
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "warnings.go" not in line]
            raise Refused("\n".join([*said, *(self.unready() if "deadline" in said[-1] else ())]).strip())
        return done.stdout

    def install(self) -> str:
        told = self.helm("install", "m3builder", str(CHART), *self.values, "--wait", "--timeout", "60s")
        return next(line for line in told.splitlines() if "is being started" in line)

    def upgrade(self, *values: str, wait: bool = True) -> str:
        sets = [part for one in values for part in ("--set", one)]
        waiting = ("--wait", "--timeout", "60s") if wait else ()
        self.helm("upgrade", "m3builder", str(CHART), *self.values, *sets, *waiting)
        if wait:
            self.settle()
        return ", ".join(f"{name} {of}" for name, of in sorted(self.replicas().items()))

    def settle(self) -> None:
        """Until every pod is of the newest template and ready, and none of an older one is left."""

        def new(one: Object) -> bool:
            found = one["status"]
            counts = {found.get(part, 0) for part in ("replicas", "updatedReplicas", "readyReplicas")}
            return found.get("observedGeneration") == one["metadata"]["generation"] and counts == {
                one["spec"]["replicas"]
            }

        try:
            until("every new pod", 60, lambda: all(map(new, self.deployments().values())))
        except TimeoutError as error:
            raise Refused(f"{error}: {self.unready()}") from None

    def strictly(self) -> str:
        """Asks the API server about every object, unknown fields refused, nothing kept; it says no word of warning."""
        plan = json.loads(
            self.helm("install", "m3builder", str(CHART), *self.values, "--dry-run=server", "--output", "json")
        )
        texts = [plan["manifest"], *(hook["manifest"] for hook in plan["hooks"])]
        objects = [one for text in texts for one in yaml.safe_load_all(text) if one]
        self.api.warnings.clear()
        for one in objects:
            self.api.make(f"{home(one, self.namespace)}?dryRun=All&fieldValidation=Strict", one)
        assert not self.api.warnings, self.api.warnings
        kinds = sorted({one["kind"] for one in objects})
        return f"{len(objects)} objects of {len(kinds)} kinds, no warning: {', '.join(kinds)}"

    def ready(self) -> str:
        replicas = self.replicas()
        nodes = {
            one["metadata"]["labels"][COMPONENT]: one["spec"]["nodeName"] for one in self.named_pods().values()
            if one["status"]["phase"] == "Running"
        }  # fmt: skip
        assert all(ready == wanted for ready, _, wanted in (of.partition("/") for of in replicas.values())), replicas
        train = f"; runner-train on {nodes['runner-train']}" if "runner-train" in nodes else ""
        return ", ".join(f"{name} {of}" for name, of in sorted(replicas.items())) + train

    def policies(self) -> str:
        found = self.api.items(self._path("networking.k8s.io/v1/networkpolicies"))
        deny = found["m3builder-default-deny"]["spec"]
        assert deny["policyTypes"] == ["Ingress", "Egress"] and not deny.get("ingress") and not deny.get("egress")
        for name, pod in self.named_pods().items():
            assert deny["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items(), name
        return ", ".join(name.removeprefix("m3builder-") for name in sorted(found))

    def accounts(self) -> str:
        names = self.api.items(f"/api/v1/namespaces/{self.namespace}/serviceaccounts")
        for name in names:
            for verb, resource in (("get", "secrets"), ("list", "pods"), ("create", "pods"), ("get", "configmaps")):
                spec = {
                    "user": f"system:serviceaccount:{self.namespace}:{name}",
                    "resourceAttributes": {"namespace": self.namespace, "verb": verb, "resource": resource},
                }
                told = self.api.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
                assert not told["status"]["allowed"], (name, verb, resource)
        tokens = [pod for pod, one in self.named_pods().items() if "serviceAccountToken" in json.dumps(one["spec"])]
        assert not tokens, tokens
        return f"{len(names)} accounts; no pod has a token"

    def alone(self, count: int, scale: Callable[[int], None]) -> str:
        """Scales the Model Trainer; every other pod stays the one that it was."""
        others = {one for one in self.pods() if one[0] != "model-trainer"}
        scale(count)
        until("the Model Trainers", 60, lambda: self.replicas()["model-trainer"] == f"{count}/{count}")
        after = {one for one in self.pods() if one[0] not in ("model-trainer", "provisioner")}
        assert after == {one for one in others if one[0] != "provisioner"}, others ^ after
        return f"model-trainer {count}/{count}; the {len(after)} other pods are those of before"

    def scale_by_helm(self, count: int) -> None:
        self.upgrade(f"services.model-trainer.replicas={count}")

    def scale_by_hand(self, count: int) -> None:
        path = f"{self._path('apps/v1/deployments')}/m3builder-model-trainer"
        self.api.ask("PATCH", f"{path}/scale", {"spec": {"replicas": count}})

    def deployments(self) -> dict[str, Object]:
        found = self.api.items(self._path("apps/v1/deployments"))
        return {name.removeprefix("m3builder-"): one for name, one in found.items()}

    def replicas(self) -> dict[str, str]:
        """Ready and wanted pods of every Deployment."""
        found = self.deployments().items()
        return {name: f"{one['status'].get('readyReplicas', 0)}/{one['spec']['replicas']}" for name, one in found}

    def named_pods(self) -> dict[str, Object]:
        return self.api.items(f"/api/v1/namespaces/{self.namespace}/pods")

    def pods(self) -> set[tuple[str, str]]:
        """Component and id of all that are there and are to stay."""
        return {
            (one["metadata"]["labels"][COMPONENT], one["metadata"]["uid"]) for one in self.named_pods().values()
            if "deletionTimestamp" not in one["metadata"]
        }  # fmt: skip

    def hpa(self, service: str) -> str:
        """What its controller says of the autoscaler that it found."""
        found = self.api.items(self._path("autoscaling/v2/horizontalpodautoscalers"))[f"m3builder-{service}"]
        told = {one["type"]: one for one in found["status"].get("conditions", ())}
        if "AbleToScale" not in told or "ScalingActive" not in told:
            return ""
        return "; ".join(f"{name} {told[name]['status']}: {told[name]['message']}" for name in sorted(told))

    def unready(self, service: str = "") -> list[str]:
        """What is said of Deployments (of one service) that lack pods, and of pods without a node."""
        told = []
        for one in (*self.deployments().values(), *self.named_pods().values()):
            if one["metadata"]["labels"].get(COMPONENT) == service or not service:
                told += [
                    f"{one['metadata']['name']}: {said['message']}" for said in one["status"].get("conditions", ())
                    if (said["type"], said["status"]) in (("ReplicaFailure", "True"), ("PodScheduled", "False"))
                ]  # fmt: skip
        return told

    def training(self) -> str:
        """Makes a Job of the ScaledJob as KEDA does; it gets a node with its slice of a GPU and ends."""
        scaled = self.api.items(self._path("keda.sh/v1alpha1/scaledjobs"))["m3builder-runner-train"]
        meta = {"name": "training", "labels": scaled["metadata"]["labels"]}
        self.api.make(self._path("batch/v1/jobs"), {"metadata": meta, "spec": scaled["spec"]["jobTargetRef"]})
        until("the end of the Job", 60, lambda: self.api.items(
            self._path("batch/v1/jobs"))["training"]["status"].get("succeeded"))  # fmt: skip
        [pod] = [one for name, one in self.named_pods().items() if name.startswith("training-")]
        self.api.ask("DELETE", f"{self._path('batch/v1/jobs')}/training?propagationPolicy=Background")
        until("the end of its pod", 30, lambda: not any(name.startswith("training-") for name in self.named_pods()))
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        slices = {name: count for name, count in limits.items() if "/" in name}
        assert pod["spec"]["nodeName"].startswith("mig-") and slices, pod["spec"]
        return f"on {pod['spec']['nodeName']} with {slices}, priority {pod['spec']['priority']}"

    def budgets(self) -> str:
        """How many pods of each service may be evicted, once that is counted for the replicas that are wanted now."""
        replicas = self.replicas()

        def counted() -> dict[str, Object]:
            found = self.api.items(self._path("policy/v1/poddisruptionbudgets"))
            states = {name.removeprefix("m3builder-"): one["status"] for name, one in found.items()}
            told = {name: f"{one['currentHealthy']}/{one['expectedPods']}" for name, one in states.items()}
            return states if told.items() <= replicas.items() else {}

        states = until("the budgets' state", 30, counted)
        return ", ".join(f"{name}: {one['disruptionsAllowed']} may go" for name, one in sorted(states.items()))

    def evicted_at_once(self, service: str) -> str:
        """Asks for every pod of a service to be evicted at the same moment; some go, and what the others are told."""

        def evict(pod: str) -> str:
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
            try:
                self.api.make(f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction", body)
            except Refused as error:
                return str(error)
            return ""

        pods = [name for name, one in self.named_pods().items() if one["metadata"]["labels"][COMPONENT] == service]
        with ThreadPoolExecutor(len(pods)) as threads:
            told = list(threads.map(evict, pods))
        refused = [one for one in told if one]
        assert "" in told and any("disruption budget" in one for one in refused), told
        return f"{told.count('')} of {len(told)} went; {', '.join(sorted(set(refused)))}"

    def make_admin(self) -> None:
        """The release's user may do in its namespace what its admins may, and nothing anywhere else."""
        group = "rbac.authorization.k8s.io"
        body = {
            "metadata": {"name": "owner"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": self.user}],
        }
        self.api.make(self._path(f"{group}/v1/rolebindings"), body)

    def remember(self) -> None:
        always = {"ConfigMap kube-root-ca.crt", "ServiceAccount default"}  # made with each namespace, a little later

        def found() -> bool:
            self.before = everything(self.api, self.namespace)
            return always <= self.before

        until("what each namespace has", 30, found)

    def uninstalled(self, trial: bool) -> str:
        """What is left is what the chart says that it keeps: audit and uploads, and what a trial server has on disk."""
        self.helm("uninstall", "m3builder", "--wait", "--timeout", "120s")
        kept = {"PersistentVolumeClaim m3builder-gateway"}
        kept |= {"PersistentVolumeClaim data-m3builder-nats-0"} if trial else set()
        left: set[str] = set()

        def only_that() -> bool:
            nonlocal left
            left = everything(self.api, self.namespace) - self.before
            return left == kept

        try:
            until("nothing but what is kept", 20, only_that)
        except TimeoutError:
            raise AssertionError(f"left behind: {', '.join(sorted(left - kept))}; gone: {kept - left}") from None
        return f"left: {', '.join(sorted(left))}"

    def _path(self, resource: str) -> str:
        group, version, plural = resource.split("/")
        return f"/apis/{group}/{version}/namespaces/{self.namespace}/{plural}"
