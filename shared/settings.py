"""One typed object read at start: environment in, `Settings` out. Importing this module does nothing."""

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.contracts.tools import ToolClass


class Settings(BaseSettings):
    """Every field is an environment variable with the prefix M3_ (`nats_url` is M3_NATS_URL)."""

    model_config = SettingsConfigDict(env_prefix="M3_", frozen=True, extra="ignore")

    home: Path = Field(default_factory=lambda: Path.home() / ".m3builder")
    """State of the embedded system: servers' data, logs, the runner's scratch."""
    nats_url: str = "nats://127.0.0.1:4222"
    nats_user: str | None = None
    nats_password: SecretStr | None = None
    s3_endpoint: str = "http://127.0.0.1:8333"
    s3_access_key: str = "m3builder"
    s3_secret_key: SecretStr = SecretStr("")
    s3_bucket_prefix: str = "m3-"
    """Buckets are <prefix>work, <prefix>data, <prefix>sealed and <prefix>packages."""
    data_roots: tuple[Path, ...] = ()
    """Folders below which datasets may lie; JSON list in the environment."""
    gateway_url: str = "http://127.0.0.1:8080"
    health_port: int = 0
    """Port of /healthz and /readyz of a service; 0 takes a free one."""
    ready_file: Path | None = None
    """Written (pid, health port) once the service is ready; the embedded supervisor waits for it."""
    otlp_endpoint: str | None = None
    """OTLP/HTTP endpoint, for example http://127.0.0.1:4318; spans are dropped when unset."""
    log_level: str = "INFO"

    ack_wait_seconds: float = 30.0
    concurrency: int = 4
    """Messages that one agent replica handles at a time."""

    archive_bytes: int = 50 << 30
    """Largest upload of a dataset, as it is sent."""
    unpacked_bytes: int = 200 << 30
    unpacked_files: int = 1_000_000
    """What one uploaded archive may hold."""

    runner_classes: tuple[ToolClass, ...] = ("data", "build", "train")
    runner_uid: int = 64321
    """To which a runner that was started as root drops before it does anything."""
    gpus: tuple[str, ...] = ()
    """GPUs of this runner's slot, for its jobs alone: numbers, `GPU-<uuid>` or `MIG-<uuid>`; all it sees when empty."""
    isolation: str = "auto"
    """`auto` takes the strongest level that works; `bwrap`, `landlock`; `none` must be named."""
    sandbox_memory_mb: int = 8192
    sandbox_cpu_threads: int = Field(default=2, ge=1)
    train_seconds: float = 3600.0
    """Default wall time of one training job."""
