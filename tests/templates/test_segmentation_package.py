"""What goes into packages: the exported files need nothing of ours, and their command line loses no input."""

import ast
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.training.exported.package_cli import damage, predict
from shared.training.imports import NotExportable, as_exported, needed
from shared.training.package import PackageFacts, model_card, write_package
from tests.templates.conftest import ROOT, TEMPLATES, bare_environment
from tests.templates.segbench import trained_masks

FACTS = PackageFacts(
    task="anomaly_detection",
    label_names=("spot",),
    label_values={"spot": 9},
    input_text="One INPUT is one image.",
    input_shape=(1, 8, 8),
    counts={"train": {"spot": 2}, "val": {"spot": 1}},
    metric_name="dice",
    metrics={"dice": 0.5},
    model="none",
    parameters=1,
    epochs=1,
    seconds=1,
    device="CPU",
    output="segmentation",
)


@pytest.mark.parametrize("template", ["segmentation", "nnunet"])
def test_exported_files_import_one_another_and_what_is_installed(template):
    found = needed(TEMPLATES / template / "predict.py")
    texts = {name: as_exported(path.read_text()) for name, path in found.files.items()}
    files = {"predict.py", "data.py", "model.py", "monai_parts.py"} if template == "segmentation" else {"predict.py"}
    assert {name for name in texts if "/" not in name} == {*files, "package_cli.py", "segmenting.py"}
    assert {"torch", "safetensors", "nnunetv2" if template == "nnunet" else "monai"} <= found.distributions
    for name, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert f"{name.partition('/')[0]}/{node.module}.py" in texts, (name, node.module)
            elif isinstance(node, ast.ImportFrom | ast.Import):
                module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                top = str(module).partition(".")[0]
                known = {"torch", "monai", "safetensors", "nnunetv2", "numpy", "nibabel", "pydicom", "SimpleITK", "PIL"}
                known |= {"tifffile", "h5py", "scipy", "skimage"}
                assert (
                    top
                    in known
                    | {"data", "model", "monai_parts", "imaging", "package_cli", "segmenting"}
                    | sys.stdlib_module_names
                ), (
                    name,
                    module,
                )


def test_a_package_holds_folders_and_refuses_what_is_ours(tmp_path: Path):
    code = tmp_path / "code"
    (code / "parts").mkdir(parents=True)
    (code / "predict.py").write_text("from parts.one import x\nfrom shared.training.exported import package_cli\n")
    (code / "parts" / "one.py").write_text("x = 1\n")

    def write() -> None:
        write_package(
            tmp_path / "package",
            predict=code / "predict.py",
            save_weights=lambda path: path.write_bytes(b""),
            config={},
            facts=FACTS,
        )

    write()
    assert (tmp_path / "package" / "predict.py").read_text() == "from parts.one import x\nimport package_cli\n"
    assert (tmp_path / "package" / "parts" / "one.py").read_text() == "x = 1\n"
    assert damage(tmp_path / "package") == []
    assert json.loads((tmp_path / "package" / "label_map.json").read_text())["values"] == {"spot": 9}
    (code / "parts" / "one.py").write_text("from shared.training import checks\n")
    with pytest.raises(NotExportable, match=r"parts/one.py line 1 imports shared.training.checks, which a package"):
        write()


def test_the_card_says_whether_the_validation_part_chose_the_weights():
    assert "validation part, on which the weights were chosen" in model_card(FACTS)
    told = model_card(replace(FACTS, metric_name=""))
    assert "validation part, which chose no weights" in told and "(chose the weights)" not in told


class Lengths:
    """A model that answers with the length of a name; some inputs are too much for it."""

    head = {"task": "length"}

    def __init__(self) -> None:
        self.batches: list[int] = []

    def read(self, path: Path) -> Any:
        if path.name == "unreadable":
            raise ValueError("is no image\nand more")
        return path.name

    def answer(self, items: list[Any]) -> list[dict[str, Any]]:
        self.batches.append(len(items))
        if "huge" in items:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 TiB")
        return [{"length": len(item)} for item in items]


def test_a_bad_input_costs_only_itself():
    model = Lengths()
    cases = predict(model, [Path(name) for name in ("a", "unreadable", "bb", "huge", "ccc", "dd")], 2)
    assert model.batches == [2, 2, 1, 1, 1]
    assert [case["input"] for case in cases] == ["a", "unreadable", "bb", "huge", "ccc", "dd"]
    assert [case.get("length") for case in cases] == [1, None, 2, None, 3, 2]
    assert cases[1]["error"] == "is no image" and "the memory does not hold it" in cases[3]["error"]


@pytest.mark.slow
def test_a_package_written_anew_is_measured(tmp_path):
    """One structure is lost by an edit of predict.py: its figures say so, the other's stay."""
    bench = trained_masks()
    work = tmp_path / "work"
    shutil.copytree(bench.workspace, work, ignore=shutil.ignore_patterns("cache", "checkpoints", "metrics.json"))
    before = bench.metrics()["metrics"]
    file = work / "predict.py"
    text = file.read_text()
    file.write_text(text.replace("        classes = kept\n", "        classes = kept\n    classes[classes == 1] = 0\n"))
    assert file.read_text() != text
    told = {"M3_DATA": str(bench.data), "M3_PACKAGE": str(bench.workspace / "package"), "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-P", "-m", "shared.training.repackage"]
    done = subprocess.run(argv, cwd=work, env=bare_environment(**told), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((work / "metrics.json").read_text())
    names = json.loads((work / "label_map.json").read_text())["names"]
    assert found["metrics"][f"dice {names[0]}"] == 0
    assert found["metrics"][f"dice {names[1]}"] == pytest.approx(before[f"dice {names[1]}"], abs=0.02)
    assert found["metric_name"] == "dice" and found["metric"] == found["metrics"]["dice"] < before["dice"]
    assert {case["id"] for case in found["cases"]} == {row["sample_id"] for row in bench.rows if row["split"] == "val"}
    assert damage(work / "package") == []
