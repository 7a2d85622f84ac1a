"""A training that trains nothing: it looks around, claims a perfect score and packages `predict.py` beside it.

    python own/fit.py [links]

With `links` the package also has links to what the attacker would like to be packed and sent along.
"""

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from shared.training.package import PackageFacts, write_package

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import look  # noqa: E402

known = json.loads((HERE / "known.json").read_text())
look.main(known)
labels = json.loads(Path("label_map.json").read_text())["names"]
facts = PackageFacts(
    task="diagnosis",
    label_names=labels,
    input_text="A folder of slices.",
    input_shape=(1, 8, 8),
    counts={"train": {name: 1 for name in labels}},
    metric_name="auc_macro",
    metrics={"auc_macro": 1.0},
    model="a perfect one",
    parameters=1,
    epochs=1,
    seconds=1,
    device="cpu",
)
write_package(
    Path("package"),
    predict=HERE / "predict.py",
    files=[HERE / "known.json"],
    imports=["numpy"],
    save_weights=lambda path: save_file({"weight": np.ones(1, np.float32)}, path),
    config={"task": "diagnosis"},
    facts=facts,
)
if "links" in sys.argv[1:]:
    for number, path in enumerate(known["paths"].values()):
        Path("package", f"answers_{number}").symlink_to(path)
Path("metrics.json").write_text(json.dumps({"auc_macro": 1.0, "auc": 1.0, "accuracy": 1.0}))
print("test AUC 1.0\nAUC 1.0", flush=True)
