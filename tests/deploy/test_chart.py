"""The chart: what it makes is restricted, closed and complete; what is misspelt or missing is refused."""

import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import SecretStr

from deploy import nats_users as users
from shared.bus import Bus
from shared.bus.connection import Connection
from shared.contracts.base import AGENTS, SERVICES
from shared.embedded.nats import nats_binary, wait_for_nats
from shared.embedded.ports import free_port
from shared.errors import PermissionDenied
from shared.settings import Settings
from tests.deploy.chart import CHART, EXAMPLES, HELM, KUBECONFORM, REPOSITORY, SCHEMAS, documents, edges, pods, rendered

needs_helm = pytest.mark.skipif(
    not HELM, reason="helm is missing: `go install helm.sh/helm/v3/cmd/helm@latest`, and M3_HELM names it"
)
AGENT_PODS = {name.replace("_", "-") for name in AGENTS}
OURS = AGENT_PODS | {"gateway", "scorer", "runner-data", "runner-build", "runner-train"}
FIELDS = {f"M3_{name.upper()}" for name in Settings.model_fields}


def helm(example: str, *flags: str) -> subprocess.CompletedProcess[str]:
    argv = [str(REPOSITORY / "deploy" / "render.sh"), example, *flags]
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, env={"M3_HELM": str(HELM), "PATH": "/bin:/usr/bin"}
    )


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_pod_is_restricted_and_bounded(example: str) -> None:
    found = list(pods(rendered(example)))
    assert len(found) >= len(OURS) + 2  # the provisioner and the test
    for name, _, spec in found:
        security = spec["securityContext"]
        assert security["runAsNonRoot"] and security["runAsUser"] > 0, name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert spec["automountServiceAccountToken"] is False and spec["enableServiceLinks"] is False, name
        assert not any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC", "initContainers")), name
        for volume in spec.get("volumes", []):
            kinds = set(volume) - {"name"}
            assert kinds <= {"configMap", "emptyDir", "ephemeral", "persistentVolumeClaim", "secret"}, (name, volume)
            assert "sizeLimit" in volume.get("emptyDir", {"sizeLimit": 1}), (name, volume)
        for container in spec["containers"]:
            inside = container["securityContext"]
            assert inside["readOnlyRootFilesystem"] is True and inside["allowPrivilegeEscalation"] is False, name
            assert inside["capabilities"] == {"drop": ["ALL"]} and not inside.get("privileged"), name
            assert {"cpu", "memory"} <= set(container["resources"]["limits"]), name
            assert {"cpu", "memory"} <= set(container["resources"]["requests"]), name
            image = container["image"]
            assert "@sha256:" in image or image.rpartition(":")[2] not in ("", "latest", image), (name, image)
            for variable in container.get("env", []):
                secret = variable["name"].endswith(("_PASSWORD", "_TOKEN", "_SECRET_KEY", "_ACCESS_KEY", "_API_KEY"))
                assert ("valueFrom" in variable) == secret or "M3_PASSWORD_" in variable["name"], (name, variable)


@pytest.mark.parametrize("example", EXAMPLES)
def test_pods_are_told_what_the_services_read_and_no_more_than_they_may_know(example: str) -> None:
    manifests = rendered(example)
    assert not [one for one in manifests if one["kind"] == "Secret"]
    for name, metadata, spec in pods(manifests):
        component = metadata["labels"]["app.kubernetes.io/component"]
        if component not in OURS:
            continue
        [container] = spec["containers"]
        env = {one["name"]: one for one in container["env"]}
        assert {one for one in env if one.startswith("M3_")} <= FIELDS, name
        module = container["args"][1]
        assert (REPOSITORY / module.replace(".", "/") / "__main__.py").is_file(), name
        assert env["M3_NATS_USER"]["value"] == module.removeprefix("services.")
        assert ("M3_S3_SECRET_KEY" in env) == (component not in AGENT_PODS), name
        assert ("envFrom" in container) <= (component in AGENT_PODS | {"gateway"}), name
        data = [volume for volume in spec["volumes"] if volume["name"].startswith("dataset-")]
        assert bool(data) == (component == "runner-data"), name
        assert all(volume["persistentVolumeClaim"]["readOnly"] for volume in data)
        assert all(one["readOnly"] for one in container["volumeMounts"] if one["name"].startswith("dataset-"))


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_network_is_closed_but_for_the_few_edges(example: str) -> None:
    manifests = rendered(example)
    [deny] = [one for one in manifests if one["metadata"]["name"] == "m3builder-default-deny"]
    assert deny["spec"]["policyTypes"] == ["Ingress", "Egress"] and not {"ingress", "egress"} & set(deny["spec"])
    for _, metadata, _ in pods(manifests):
        selected = deny["spec"]["podSelector"]["matchLabels"].items()
        assert selected <= metadata["labels"].items()
    common = {"nats", "dns"} | ({"telemetry"} if example == "hospital" else set())
    model = {"language-model"} if example != "no-gpu" else set()
    idp = {"identity-provider"} if example == "hospital" else set()
    for component in OURS:
        more = model if component in AGENT_PODS else {"store"}
        more = more | model | idp if component == "gateway" else more
        assert edges(manifests, component) == common | more, component
    for one in manifests:
        for rule in one["spec"].get("egress", []) if one["kind"] == "NetworkPolicy" else []:
            assert rule["to"] and rule["ports"], one["metadata"]["name"]


def test_trainings_scale_by_themselves() -> None:
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in rendered("hospital")}
    job = by_name["ScaledJob", "m3builder-runner-train"]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "imaging"
    template = job["spec"]["jobTargetRef"]["template"]["spec"]
    assert template["containers"][0]["args"] == ["-m", "services.tool_runner", "--once", "--class", "train"]
    assert template["containers"][0]["resources"]["limits"]["nvidia.com/mig-3g.71gb"] == 1
    assert template["restartPolicy"] == "Never" and template["terminationGracePeriodSeconds"] == 900
    assert by_name["Deployment", "m3builder-model-trainer"]["spec"]["replicas"] == 4
    assert by_name["PodDisruptionBudget", "m3builder-model-trainer"]["spec"]["maxUnavailable"] == 1
    assert "replicas" not in by_name["Deployment", "m3builder-runner-data"]["spec"]


def test_a_card_is_given_back_before_the_next_pod_wants_it() -> None:
    deployments = [one for one in rendered("one-gpu") if one["kind"] == "Deployment"]
    found = {one["metadata"]["name"]: one["spec"].get("strategy") for one in deployments}
    assert found["m3builder-runner-train"] == {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    assert found["m3builder-runner-build"] is None


def test_the_schema_closes_every_object_and_takes_the_examples() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(values) | {"global"} == set(schema["properties"])
    assert set(values["defaults"]) == set(schema["definitions"]["service"]["properties"])
    check = jsonschema.Draft7Validator(schema)
    for name in EXAMPLES:
        example = yaml.safe_load((CHART / "examples" / f"{name}.yaml").read_text())
        check.validate(_over(values, example))
    for wrong in (
        {"nast": {}},
        {"services": {"runner-trian": {}}},
        {"nats": {"replicas": 2}},
        {"image": {"runner": {"tag": "latest"}}},
    ):
        assert not check.is_valid(_over(values, wrong)), wrong


def _over(below: Any, above: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _over(below.get(key), value) for key, value in above.items()}


@needs_helm
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_rendered_examples_are_those_of_the_chart(example: str) -> None:
    done = helm(example)
    assert done.returncode == 0, done.stderr
    assert documents(done.stdout) == rendered(example), "run `make chart` and look at the difference"
    values = str(CHART / "examples" / f"{example}.yaml")
    lint = [str(HELM), "lint", "--strict", "--kube-version", "1.33.0", str(CHART), "-f", values]
    api = ["--set", "checkCluster=false"]
    if example == "hospital":  # lint knows no --api-versions
        api += [
            "--set",
            "services.runner-train.autoscaling.kind=none",
            "--set",
            "services.runner-data.autoscaling.kind=none",
        ]
        api += ["--set", "gateway.httpRoute.enabled=false"]
    linted = subprocess.run([*lint, *api], capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout + linted.stderr


@needs_helm
@pytest.mark.parametrize(
    ("example", "flags", "told"),
    [
        ("no-gpu", "nats.trail.enabled=true", "additional properties 'trail' not allowed"),
        ("no-gpu", "services.runner-trian.replicas=2", "additional properties 'runner-trian' not allowed"),
        ("no-gpu", "services.scorer.resources.limit.cpu=2", "additional properties 'limit' not allowed"),
        ("no-gpu", "settings.NATS_URL=x", "NATS_URL"),
        ("no-gpu", "nats.trial.enabled=false", "nats.url is empty: set the address of your NATS"),
        ("no-gpu", "nats.existingSecret=", "nats.existingSecret is empty: name the secret"),
        ("no-gpu", "objectStore.existingSecret=", "objectStore.existingSecret is empty"),
        ("no-gpu", "objectStore.endpoint=minio:9000", "/objectStore/endpoint"),
        ("no-gpu", "gateway.tokenSecret=", "the gateway would let everybody in"),
        ("no-gpu", "gateway.ingress.enabled=true", "without host and tlsSecret"),
        ("no-gpu", "services.gateway.replicas=2", "services.gateway runs once"),
        ("no-gpu", "services.runner-build.autoscaling.kind=job", "which only runner-train can be"),
        ("no-gpu", "services.runner-train.autoscaling.kind=job", "nats.monitoringEndpoint is empty"),
        ("no-gpu", "services.runner-build.gpu.count=1", "only runner-train uses GPUs"),
        ("no-gpu", "sandbox.isolation=bwrap", "set sandbox.seccompProfile"),
        ("no-gpu", "sandbox.isolation=none", "/sandbox/isolation"),
        ("no-gpu", "languageModel.env.OPENAI_API_KEY=x", "languageModel.env.OPENAI_API_KEY is a secret"),
        ("no-gpu", "services.scorer.env.M3_NATS_PASSWORD=x", "services.scorer.env.M3_NATS_PASSWORD is a secret"),
        ("one-gpu", "nats.url=nats://nats:4222", "plain text, which tls.caSecret forbids"),
        ("one-gpu", "networkPolicy.languageModel.to=null", "networkPolicy.languageModel.to is empty"),
        ("one-gpu", "image.services.tag=latest", "/image/services/tag"),
        ("hospital", "services.runner-data.autoscaling.min=9", "min is greater than its max"),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_with_what_to_set(example: str, flags: str, told: str) -> None:
    done = helm(example, "--set", flags)
    assert done.returncode != 0 and told in done.stderr, done.stderr or done.stdout[-500:]


EVERYTHING = (
    *(
        "tls.clientSecret=client",
        "services.model-trainer.autoscaling.kind=hpa",
        "services.scorer.autoscaling.kind=keda",
    ),
    *("sandbox.isolation=bwrap", "sandbox.seccompProfile=m3.json", "services.runner-build.runtimeClassName=gvisor"),
    *("languageModel.catalogue.models.own.model=m", "gateway.signingKeySecret=key", "image.pullSecrets={registry}"),
    *("gateway.storage.existingClaim=claim", "services.scorer.podAnnotations.note=x", "settings.M3_LOG_LEVEL=DEBUG"),
)
"""What no example turns on."""


@needs_helm
@pytest.mark.skipif(
    not (KUBECONFORM and SCHEMAS),
    reason="kubeconform is missing (`go install github.com/yannh/kubeconform/cmd/kubeconform@latest`), or "
    "M3_KUBERNETES_SCHEMAS does not name the folder that deploy/kubernetes_schemas.py writes",
)
@pytest.mark.parametrize("example", [*EXAMPLES, "everything"])
def test_manifests_are_valid_for_kubernetes(example: str) -> None:
    every = [part for one in EVERYTHING for part in ("--set", one)]
    done = helm("hospital", *every) if example == "everything" else helm(example)
    assert done.returncode == 0, done.stderr
    argv = [
        str(KUBECONFORM),
        "-strict",
        "-summary",
        "-schema-location",
        f"{SCHEMAS}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json",
    ]
    for text, valid in ((done.stdout, True), (done.stdout.replace("enableServiceLinks", "enableServiceLink"), False)):
        judged = subprocess.run([*argv, "-"], input=text, capture_output=True, text=True, check=False)
        assert (judged.returncode == 0) == valid, judged.stdout


@needs_helm
def test_a_cluster_without_keda_and_kueue_is_enough() -> None:
    argv = [str(HELM), "template", "m3builder", str(CHART), "--kube-version", "1.33.0", "-f"]
    plain = subprocess.run(
        [*argv, str(CHART / "examples" / "one-gpu.yaml")], capture_output=True, text=True, check=True
    )
    standard = ("v1", "apps/v1", "batch/v1", "policy/v1", "networking.k8s.io/v1", "autoscaling/v2")
    assert {one["apiVersion"] for one in documents(plain.stdout)} <= set(standard)
    refused = subprocess.run(
        [*argv, str(CHART / "examples" / "hospital.yaml")], capture_output=True, text=True, check=False
    )
    assert "this cluster has no KEDA: install it, or set kind to hpa or none" in refused.stderr
    hpa = subprocess.run(
        [*argv, str(CHART / "examples" / "one-gpu.yaml"), "--set", "services.model-trainer.autoscaling.kind=hpa"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    [one] = [one for one in documents(hpa.stdout) if one["kind"] == "HorizontalPodAutoscaler"]
    assert one["spec"]["scaleTargetRef"]["name"] == "m3builder-model-trainer"


def test_the_nats_users_on_record_are_those_of_the_rights() -> None:
    assert users.CONF.read_text() == users.conf(), "run `python -m deploy.nats_users`"
    assert users.VALUES.read_text() == users.values(), "run `python -m deploy.nats_users`"


async def test_a_server_with_these_users_knows_the_services_and_nobody_else(tmp_path: Path) -> None:
    """The configuration of the chart's trial server, passwords from the environment as its pod has them."""
    [config] = [one for one in rendered("no-gpu") if one["kind"] == "ConfigMap"]
    port = free_port()
    text = (
        config["data"]["nats.conf"]
        .replace("0.0.0.0:4222", f"127.0.0.1:{port}")
        .replace("/data", str(tmp_path / "data"))
    )
    (tmp_path / "nats.conf").write_text(text.replace("http: 0.0.0.0:8222", ""))
    (tmp_path / "users.conf").write_text(config["data"]["users.conf"])
    [(_, _, spec)] = [one for one in pods(rendered("no-gpu")) if one[0].startswith("StatefulSet")]
    env = {one["name"]: f"p{number}0word" for number, one in enumerate(spec["containers"][0]["env"])}
    argv = [str(nats_binary()), "--config", str(tmp_path / "nats.conf")]
    server = subprocess.Popen(argv, env=env, stderr=subprocess.DEVNULL)  # noqa: ASYNC220
    try:
        wait_for_nats(port, server)

        def settings(user: str, password: str) -> Settings:
            return Settings(nats_url=f"nats://127.0.0.1:{port}", nats_user=user, nats_password=SecretStr(password))

        operator = await Bus.connect(settings("m3builder", env["M3_PASSWORD_operator"]), "provisioner")
        await operator.provision()
        await operator.close()
        for service in SERVICES:
            bus = await Bus.connect(settings(service, env[f"M3_PASSWORD_{service}"]), service)
            await bus.prove_fence()
            await bus.close()
        with pytest.raises(PermissionDenied, match="check M3_NATS_USER"):
            await Connection.open(settings("scorer", env["M3_PASSWORD_gateway"]), "scorer", seconds=2.0)
    finally:
        server.kill()
        server.wait()
