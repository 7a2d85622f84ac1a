"""Which code of a training is nobody's but its author's."""

import hashlib

from services.tool_runner.mounts import TEMPLATES
from services.tool_runner.own_code import own_code
from shared.contracts.base import Ref
from shared.store.folders import FileEntry, FolderManifest
from shared.training.imports import as_exported, needed

COMMAND = ("python", "train.py", "--config", "config.yaml")
DIAGNOSIS = TEMPLATES / "diagnosis"


def manifest(files: dict[str, str]) -> FolderManifest:
    def entry(text: str) -> FileEntry:
        digest = hashlib.sha256(text.encode()).hexdigest()
        return FileEntry(ref=Ref(bucket="work", key=digest, sha256=digest, size=len(text)), mode=0o644)

    return FolderManifest(files={path: entry(text) for path, text in files.items()})


def trained() -> dict[str, str]:
    """The template as it is copied, and the code of the package that it writes."""
    own = {path.name: path.read_text() for path in DIAGNOSIS.iterdir() if path.is_file()}
    code = needed(DIAGNOSIS / "predict.py").files
    return own | {f"package/{path}": as_exported(file.read_text()) for path, file in code.items()}


def test_a_template_with_another_configuration_has_no_own_code() -> None:
    assert own_code([manifest(trained() | {"config.yaml": "model: {network: small}", "notes.md": "x"})], COMMAND) == ()


def test_changed_and_further_files_are_named_wherever_they_lie() -> None:
    changed = trained()
    changed["package/model.py"] += "\nTABLE = {}\n"
    changed |= {"tools/look.py": "print(1)", "package/fast.so": "\x7fELF"}
    assert own_code([manifest(changed)], COMMAND) == ("package/fast.so", "package/model.py", "tools/look.py")
    # Also where the training put the template's file back before it ended.
    assert own_code([manifest(changed), manifest(trained())], COMMAND)[1] == "package/model.py"


def test_a_command_that_is_a_program_is_named() -> None:
    (told,) = own_code([manifest(trained())], ("python", "-c", "open('package/predict.py', 'w')"))
    assert told.startswith("python -c open(")
    assert len(own_code([manifest({f"{n}.py": f"{n}" for n in range(50)})], ("sh", "-c", "x" * 999))[0]) == 200
