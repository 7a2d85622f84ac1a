"""A delivered package says where it comes from and is signed; whatever is changed in it is found and named."""

import io
import os
import shutil
import tarfile
from pathlib import Path

import httpx
import pytest

from services.command.verify import Refused, verify
from services.gateway.app import create_app
from services.gateway.provenance import CARD, PROVENANCE, SIGNATURE, Provenance
from services.gateway.signing import PublicKey, Signer, new_key
from shared.bus import Bus
from shared.contracts.runs import RunFinished
from shared.errors import UserError
from shared.settings import Settings
from shared.store import Store
from shared.training.package import PackageFacts, write_package
from tests.cli.conftest import call
from tests.gateway.story import Story
from tests.gateway.test_package_alone import PREDICT

FACTS = PackageFacts(
    task="diagnosis", label_names=["a", "x"], input_text="a folder", input_shape=(1, 8, 8), counts={}, metric_name="",
    metrics={}, model="resnet", parameters=1, epochs=1, seconds=1.0, device="CPU",
)  # fmt: skip


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return new_key(tmp_path / "keys" / "signing.pem")[0]


async def delivered(bus: Bus, store: Store, settings: Settings, folder: Path, key: Path | None) -> Path:
    """A package of a run as `GET .../package.tar` gives it."""
    (folder / "made").mkdir(parents=True)
    (folder / "made" / "predict.py").write_text(PREDICT.format(secret="/etc/shadow"))
    write_package(
        folder / "made" / "package", predict=folder / "made" / "predict.py", imports=("numpy",), config={}, facts=FACTS,
        save_weights=lambda path: path.write_bytes(b"weights"),
    )  # fmt: skip
    (folder / "made" / "package" / PROVENANCE).write_text('{"format": 1, "run_id": "a stranger\'s"}')
    ref = store.put_folder("packages", folder / "made" / "package")
    story = Story(bus)
    assembled = await story.assembled()
    await story.fact(RunFinished, 90, "task_manager", assembled, end="succeeded", level="valid", package=ref)
    app = create_app(bus, store, settings.model_copy(update={"signing_key": key and key.with_suffix("")}))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http:
        answers = [await http.get(f"/runs/{story.run_id}/artifacts/package.tar") for _ in range(2)]
    content = answers[0].content
    assert content == answers[1].content and int(answers[0].headers["content-length"]) == len(content)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder / "package", filter="data")
    (folder / "package").chmod(0o755)
    return folder / "package"


async def test_a_signed_package_is_checked_file_by_file(
    bus: Bus, store: Store, settings: Settings, tmp_path: Path, key: Path
) -> None:
    package = await delivered(bus, store, settings, tmp_path / "run", key)
    good = verify(package, key)
    made = good.provenance
    assert good.signed and made and made.level == "valid" and made.template and made.template.name == "diagnosis"
    assert made.data and made.data.rules_sha256 == "0" * 64 and made.data.locks == 1
    assert made.isolation == {} and made.house.version and made.house.sha256 and made.template.sha256
    assert made.environment[0].startswith("# Python 3") and made.environment[1].startswith("numpy==")
    assert {"MODEL_CARD.md", CARD, "SHA256SUMS", "model.safetensors"} <= made.files.keys()
    assert "# Model of run" in (package / CARD).read_text()
    assert "not checked" in verify(package, None).said

    def refused(change, match: str) -> None:
        copy = tmp_path / "copy"
        shutil.copytree(package, copy)
        change(copy)
        with pytest.raises(Refused, match=match):
            verify(copy, key)
        shutil.rmtree(copy)

    def flip(name: str):
        def change(folder: Path) -> None:
            content = bytearray((folder / name).read_bytes())
            content[len(content) // 2] ^= 1
            (folder / name).write_bytes(content)

        return change

    for name in ("model.safetensors", "predict.py", CARD, "MODEL_CARD.md", "SHA256SUMS"):
        refused(flip(name), f"{name} was changed")
    refused(flip(SIGNATURE), "the signature does not fit")
    refused(lambda folder: (folder / "sitecustomize.py").write_text(""), "sitecustomize.py was added")
    refused(lambda folder: (folder / "config.json").unlink(), "config.json is missing")
    refused(lambda folder: (folder / SIGNATURE).unlink(), "not signed")
    refused(lambda folder: (folder / PROVENANCE).unlink(), "not signed")

    def better(folder: Path) -> None:
        text = made.model_copy(update={"level": "useful"}).model_dump_json(indent=1)
        (folder / PROVENANCE).write_text(text)

    refused(better, "was changed: the signature does not fit")


async def test_another_key_and_no_key(bus: Bus, store: Store, settings: Settings, tmp_path: Path, key: Path) -> None:
    other = new_key(tmp_path / "other")[0]
    package = await delivered(bus, store, settings, tmp_path / "run", other)
    one, theirs = PublicKey.of(key).id, PublicKey.of(other).id
    with pytest.raises(Refused, match=f"signed by another key .{theirs}., not by {one}"):
        verify(package, key)
    plain = await delivered(bus, store, settings, tmp_path / "plain", None)
    assert not (plain / SIGNATURE).exists()
    assert Provenance.model_validate_json((plain / PROVENANCE).read_bytes()).key is None
    found = verify(plain, None)
    assert not found.signed and "unsigned" in found.said
    with pytest.raises(Refused, match="not signed"):
        verify(plain, key)
    (plain / CARD).write_text("useful")
    with pytest.raises(Refused, match=f"{CARD} was changed"):
        verify(plain, None)


async def test_the_command_predicts_with_what_it_has_checked(
    bus: Bus, store: Store, settings: Settings, tmp_path: Path, key: Path
) -> None:
    environment = dict(os.environ) | {"M3_HOME": str(tmp_path / "home")}
    for folder in (tmp_path, tmp_path / "run"):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    package = await delivered(bus, store, settings, tmp_path / "run", key)
    scan, given = tmp_path / "scan", ("--key", str(key))
    scan.mkdir()
    (scan / "0.png").write_bytes(b"x")
    assert "good" in call(environment, "verify", str(package), *given)
    said = call(environment, "predict", str(package), str(scan), "--output", str(tmp_path / "out"), *given)
    assert '"label": "x"' in said and "good" in said
    (package / "predict.py").write_text("raise SystemExit('never run')")
    said = call(environment, "predict", str(package), str(scan), "--output", str(tmp_path / "no"), *given, code=2)
    assert "predict.py was changed" in said and not (tmp_path / "no").exists()


def test_a_key_is_private_and_never_replaced(tmp_path: Path, key: Path) -> None:
    private = key.with_suffix("")
    signer = Signer.of(private)
    assert signer and PublicKey.of(key).signed(b"x", signer.sign(b"x"))
    assert not PublicKey.of(key).signed(b"y", signer.sign(b"x"))
    assert private.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UserError, match="exists"):
        new_key(private)
    private.chmod(0o644)
    with pytest.raises(UserError, match="chmod 600"):
        Signer.of(private)
    private.chmod(0o600)
    private.write_text("no key")
    with pytest.raises(UserError, match="no private Ed25519 key"):
        Signer.of(private)
    with pytest.raises(UserError, match="no public Ed25519 key"):
        PublicKey.of(private)
    assert Signer.of(None) is None
