"""One typed object read at start: environment in, `Settings` out. Importing this module does nothing."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from shared.contracts.tools import ToolClass

Right = Literal["ask", "data", "approve", "operate"]
"""What a person may do at the gateway: ask for runs; see data and register datasets; approve; see every run."""


class Settings(BaseSettings):
    """Every field is an environment variable with the prefix M3_ (`nats_url` is M3_NATS_URL)."""

    model_config = SettingsConfigDict(env_prefix="M3_", frozen=True, extra="ignore")

    home: Path = Field(default_factory=lambda: Path.home() / ".m3builder")
    """State of the embedded system: servers' data, logs, the runner's scratch."""
    nats_url: str = "nats://127.0.0.1:4222"
    """Of a cluster several, separated by commas. With tls:// a server that speaks plain text is refused."""
    nats_replicas: int | None = Field(default=None, ge=1, le=5)
    """Copies of each stream that whoever provisions asks for; 3 of a cluster and 1 of a single server when unset."""
    nats_user: str | None = None
    nats_password: SecretStr | None = None
    s3_endpoint: str = "http://127.0.0.1:8333"
    s3_access_key: str = "m3builder"
    s3_secret_key: SecretStr = SecretStr("")
    s3_bucket_prefix: str = "m3-"
    """Buckets are <prefix>work, <prefix>data, <prefix>sealed and <prefix>packages."""
    tls_ca_file: Path | None = None
    """Authorities (PEM, one or several) that must have signed the certificates of bus and store; plain text is refused
    then. Without it tls:// and https:// are checked against those of the machine."""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    """What this service shows a bus or store that asks for a certificate."""
    data_roots: tuple[Path, ...] = ()
    """Folders below which datasets may lie; JSON list in the environment."""
    gateway_url: str = "http://127.0.0.1:8080"
    gateway_token: SecretStr | None = None
    """What the gateway wants as `Authorization: Bearer`; the embedded system makes one that only its user can read."""
    gateway_token_file: Path | None = None
    """Where the command finds its token, read anew for each request; `gateway_token` comes first."""
    oidc_issuer: str | None = None
    """Address of the OpenID provider whose access tokens the gateway takes, beside `gateway_token`."""
    oidc_audience: str = "m3builder"
    """What the provider calls this gateway: its tokens must be meant for it (`aud`)."""
    oidc_user_claim: str = "sub"
    """The claim that names a person in runs and audit; only one that the provider never gives to somebody else."""
    oidc_roles_claim: str = "roles"
    """The claim that holds a person's roles, as a list or in one text; `realm_access.roles` is a claim in a claim."""
    oidc_roles: dict[str, tuple[Right, ...]] = {
        "m3builder-ask": ("ask",),
        "m3builder-data": ("data",),
        "m3builder-approve": ("approve",),
        "m3builder-operate": ("operate",),
    }
    """Role at the provider -> what it allows here; JSON in the environment."""
    oidc_client_id: str = "m3builder"
    oidc_scope: str = "openid offline_access"
    """As what, and for what, `m3builder login` asks the provider: a public client with the device flow."""
    signing_key: Path | None = None
    """Private key of the operator (`m3builder keys new`) with which the gateway signs the packages that it delivers."""
    verify_key: Path | None = None
    """Public key that must have signed a package before the command predicts with it."""
    models_file: Path | None = None
    """Endpoints, models and prices of the operator's own, in the form of `shared/models/models.yaml`."""
    model_seconds: float = Field(default=1800.0, gt=0)
    """How long a language model may take for one reply."""
    health_port: int = 0
    """Port of /healthz and /readyz of a service; 0 takes a free one."""
    ready_file: Path | None = None
    """Written (pid, health port) once the service is ready; the embedded supervisor waits for it."""
    otlp_endpoint: str | None = None
    """Where a collector takes OTLP, for example http://127.0.0.1:4318; nothing is told when unset. Protocol, headers
    and TLS are OpenTelemetry's own OTEL_EXPORTER_OTLP_PROTOCOL, _HEADERS, _CERTIFICATE and so on."""
    log_level: str = "INFO"

    start_seconds: float = Field(default=30.0, gt=0)
    """How long a service that starts waits for bus and store."""
    stop_seconds: float = Field(default=30.0, gt=0)
    """What a runner gets after SIGTERM to have its training write a checkpoint (half of it), store it and hand the job
    back. Pods need 15 s more as their `terminationGracePeriodSeconds`; `m3builder down` waits 45 s."""
    ack_wait_seconds: float = 30.0
    concurrency: int = 4
    """Messages that one agent replica handles at a time."""

    audit_bytes: int = Field(default=64 << 20, ge=1)
    """Size from which on the gateway's audit goes on in a new file; the full ones stay."""
    archive_bytes: int = 50 << 30
    """Largest upload of a dataset, as it is sent."""
    uploads_bytes: int = 200 << 30
    """Largest sum of uploads that no dataset has taken."""
    unpacked_bytes: int = 200 << 30
    unpacked_files: int = 1_000_000
    """What one uploaded archive may hold."""

    profile_seconds: float = 600.0
    """How long a runner may take to look at a dataset's files, when it is registered and before each run that may take
    it; with 0 nobody looks."""
    runner_classes: tuple[ToolClass, ...] = ("data", "build", "train")
    runner_uid: int = 64321
    """To which a runner that was started as root drops before it does anything."""
    min_gpus: int = Field(default=0, ge=0)
    """With fewer GPUs in sight a runner ends at once, so that no training spends hours on a CPU unnoticed."""
    gpus: tuple[str, ...] = ()
    """GPUs of this runner's slot, for its jobs alone: numbers, `GPU-<uuid>` or `MIG-<uuid>`; all it sees when empty."""
    isolation: str = "auto"
    """`auto` takes the strongest level that works; `bwrap`, `landlock`; `none` must be named."""
    sandbox_memory_mb: int = 8192
    sandbox_disk_mb: int = 100 * 1024
    """What one workspace of a run may hold on disk, caches included."""
    sandbox_cpu_threads: int = Field(default=2, ge=1)
    train_jobs: int = Field(default=1, ge=1)
    """Trainings and test predictions that a runner without a GPU does at a time, each with `sandbox_cpu_threads` of its
    cores; one with a GPU does one."""
    left_out_bound: float = Field(default=0.2, ge=0, le=1)
    """Share of a dataset's images that may be no case, for other reasons than that nobody asked for them, before a
    score is at most valid."""
    train_seconds: float = 3600.0
    """Default wall time of one training job."""


def from_environment() -> Settings:
    """The settings of a service. Ends the process with a sentence a fault, where a variable has no value that can be
    used."""
    try:
        return Settings()
    except SettingsError as error:
        raise SystemExit(f"{error}: lists and tables are JSON, such as M3_DATA_ROOTS='[\"/data\"]'.") from None
    except ValidationError as error:
        faults = [f"M3_{str(one['loc'][0]).upper()} cannot be used: {one['msg']}." for one in error.errors()]
        raise SystemExit("\n".join(faults)) from None
