"""Train to find lesions: `python train.py --config config.yaml`, or `python train.py --smoke` for a try-out in seconds.

Reads train_index.jsonl and label_map.json, images and masks below $M3_DATA. Leaves progress.jsonl, metrics.json
(validation only), checkpoints/ and package/ in the working directory. A second call with the same configuration, data
and code goes on from the newest intact checkpoint. Exit codes: 0 done, 1 the training failed, 2 configuration or data
are wrong (all problems are listed), 143 stopped by SIGTERM with a checkpoint saved.
"""

import os
import sys
from pathlib import Path

# Before the frameworks are imported: nothing looks for a network, and threads that wait do not spin, which on a machine
# shared with others costs half the speed.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import config
import dataset
import model

from shared.trainkit.segmentation import run
from shared.trainkit.segmentation.template import Template

TEMPLATE = Template(
    task="anomaly_detection",
    folder=Path(__file__).resolve().parent,
    load=config.load,
    dataset=dataset,
    model=model,
    every_structure=False,
)

if __name__ == "__main__":
    sys.exit(run.main(__doc__, TEMPLATE))
