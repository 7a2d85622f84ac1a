"""A Kubernetes control plane on loopback whose nodes are simulated: etcd, API server, controllers, scheduler, kwok."""

import copy
import secrets
import signal
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml

from shared.embedded.certificate import write_key_pair
from shared.embedded.ports import free_port

Object = dict[str, Any]
Found = TypeVar("Found")
USERS = {
    "admin": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    "kwok": "system:masters",
    "installer": "",  # may do what a RoleBinding says, and nothing else
}


class Refused(Exception):
    """What the API server said instead of doing what was asked."""


def until(what: str, seconds: float, look: Callable[[], Found | None]) -> Found:
    """What `look` finds once it finds something; a refusal counts as nothing yet."""
    end, last = time.monotonic() + seconds, ""
    while time.monotonic() < end:
        try:
            if found := look():
                return found
        except (Refused, httpx.HTTPError) as error:
            last = f": {error}"
        time.sleep(0.3)
    raise TimeoutError(f"{what} is not there after {seconds:.0f} s{last}")


class Api:
    """Requests to the API server as one user."""

    def __init__(self, url: str, token: str, authority: Path) -> None:
        self.http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            verify=ssl.create_default_context(cafile=str(authority)),
            timeout=30,
            trust_env=False,
        )
        self.warnings: list[str] = []
        """What it said beside doing what was asked."""

    def ask(self, method: str, path: str, body: Object | None = None) -> Object:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = self.http.request(method, path, json=body, headers={"Content-Type": kind})
        self.warnings += answer.headers.get_list("warning")
        told = answer.headers.get("content-type", "").startswith("application/json")
        said: Object = answer.json() if told else {"message": answer.text.strip()}
        if answer.is_error:
            raise Refused(said.get("message") or said["reason"])
        return said

    def make(self, path: str, *bodies: Object) -> None:
        for body in bodies:
            self.ask("POST", path, body)

    def items(self, path: str) -> dict[str, Object]:
        """What lies under a path, by name."""
        return {one["metadata"]["name"]: one for one in self.ask("GET", path)["items"]}


class ControlPlane:
    """Its processes and the files with which one talks to them."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder = programs, folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.tokens = {user: secrets.token_hex(16) for user in USERS}
        self.url = f"https://127.0.0.1:{free_port()}"

    def start(self) -> Api:
        try:
            return self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for process in reversed(self.running.values()):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.running.values()):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def kubeconfig(self, user: str) -> Path:
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        server = {"server": self.url, "certificate-authority": str(self.folder / "apiserver.crt")}
        text = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": server}],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": user}}],
            "current-context": "here",
        }
        path.write_text(yaml.safe_dump(text))
        return path

    def _start(self) -> Api:
        store, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            *(f"--{part}-client-urls={store}" for part in ("listen", "advertise")),
            *(f"--{part}-peer-urls={peers}" for part in ("listen", "initial-advertise")),
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
        )
        certificate, key = write_key_pair(self.folder, "accounts")
        tokens = [f'{token},{user},{user},"{USERS[user]}"' for user, token in self.tokens.items()]
        (self.folder / "tokens.csv").write_text("\n".join(tokens))
        self._run(
            "kube-apiserver",
            f"--etcd-servers={store}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.url.rpartition(':')[2]}",
            f"--cert-dir={self.folder}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={certificate}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            "--allow-privileged",  # what is refused is refused by the namespace's pod security
            "--endpoint-reconciler-type=none",
        )
        until("the API server's certificate", 60, lambda: self._alive() and (self.folder / "apiserver.crt").exists())
        api = Api(self.url, self.tokens["admin"], self.folder / "apiserver.crt")
        until("the API server", 120, lambda: self._alive() and api.http.get("/readyz").is_success)
        self._controllers(key)
        return api

    def _controllers(self, key: Path) -> None:
        common = ("--leader-elect=false", "--secure-port=0")
        manager, scheduler = (f"system:kube-{part}" for part in ("controller-manager", "scheduler"))
        self._run(
            "kube-controller-manager",
            *common,
            f"--kubeconfig={self.kubeconfig(manager)}",
            f"--service-account-private-key-file={key}",
            f"--root-ca-file={self.folder / 'apiserver.crt'}",
            "--use-service-account-credentials",
            "--enable-hostpath-provisioner",  # makes the volumes that claims ask for, as empty folders
        )
        self._run("kube-scheduler", *common, f"--kubeconfig={self.kubeconfig(scheduler)}")
        stages = [yaml.safe_load(path.read_text()) for path in sorted((self.programs / "stages").glob("*.yaml"))]
        (self.folder / "stages.yaml").write_text(
            yaml.safe_dump_all([*stages, *(_of_tests(one) for one in stages if "complete" in one["metadata"]["name"])])
        )
        self._run(
            "kwok",
            f"--config={self.folder / 'stages.yaml'}",
            f"--kubeconfig={self.kubeconfig('kwok')}",
            "--manage-all-nodes",
            "--node-ip=127.0.0.1",
            f"--server-address=127.0.0.1:{free_port()}",
            "--node-lease-duration-seconds=40",
        )

    def _alive(self) -> bool:
        for program, process in self.running.items():
            if process.poll() is not None:
                raise RuntimeError(f"{program} ended: {(self.folder / f'{program}.log').read_text()[-600:]}")
        return True

    def _run(self, program: str, *flags: str) -> None:
        with (self.folder / f"{program}.log").open("wb") as log:
            argv = [str(self.programs / program), *flags]
            self.running[program] = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _of_tests(stage: Object) -> Object:
    """A stage as it is for pods of Jobs, for those of `helm test`, which end as well."""
    made: Object = copy.deepcopy(stage)
    made["metadata"]["name"] += "-of-tests"
    for one in made["spec"]["selector"]["matchExpressions"]:
        if one["key"] == ".metadata.ownerReferences.[].kind":
            one.update(key='.metadata.labels["app.kubernetes.io/component"]', values=["test"])
    return made
