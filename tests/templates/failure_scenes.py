"""Trainings that fail on purpose, each in a process forked from one that has the frameworks loaded.

Usage: failure_scenes.py FOLDER [SCENE...]: writes FOLDER/<scene>.out with all that the scene said, prints scene -> exit
code as JSON; the scenes that are named are left out. The caller sees to a small /dev/shm, as containers have it, and to
a small disk at /media.
"""

import ctypes
import importlib
import importlib.metadata
import json
import math
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.pool import ThreadPool
from pathlib import Path
from types import SimpleNamespace
from typing import Any

SCENES: dict[str, Callable[[], None]] = {}
HERE = Path(__file__).resolve().parent
FILLS = "m3-failure-scene-fills"


def scene(function: Callable[[], None]) -> Callable[[], None]:
    SCENES[function.__name__] = function
    return function


class Zeros:
    """Samples of four megabytes, one of them deadly."""

    def __init__(self, numbers: int, kills: int | None = None) -> None:
        self.numbers, self.kills = numbers, kills

    def __len__(self) -> int:
        return 8

    def __getitem__(self, number: int) -> Any:
        if number == self.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(self.numbers)


@scene
def dead_worker() -> None:
    list(torch.utils.data.DataLoader(Zeros(4, kills=3), 2, num_workers=1))


@scene
def shm_of_workers() -> None:
    list(torch.utils.data.DataLoader(Zeros(1 << 20), 2, num_workers=1))


@scene
def shm_of_one() -> None:
    torch.zeros(1 << 22).share_memory_()


@scene
def shm_of_locks() -> None:
    try:
        Path("/dev/shm", FILLS).write_bytes(bytes(1 << 22))
    except OSError:
        torch.multiprocessing.Queue()


@scene
def memory_of_torch() -> None:
    torch.empty(1 << 50)


@scene
def memory_of_numpy() -> None:
    np.ones(1 << 50)


@scene
def memory_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@scene
def disk_full() -> None:
    Path("/media/weights").write_bytes(bytes(1 << 22))


@scene
def disk_full_for_weights() -> None:
    torch.save(torch.zeros(1 << 20), "/media/state.pt")


@scene
def labels_in_cross_entropy() -> None:
    torch.nn.functional.cross_entropy(torch.zeros(2, 3), torch.tensor([0, 28]))


@scene
def labels_in_one_hot() -> None:
    torch.nn.functional.one_hot(torch.tensor([0, 28]), 3)


@scene
def labels_as_places() -> None:
    torch.zeros(2, 3).scatter_(1, torch.tensor([[0], [28]]), 1)


def integrity(labels: dict[str, int], value: int = 1, shape: Any = (8, 9, 10), affine: Any = None) -> None:
    """nnU-Net's own look at a dataset of one case, whose mask is of this value, shape and affine."""
    import nibabel

    (folder := Path("raw")).mkdir()
    images, masks = folder / "imagesTr", folder / "labelsTr"
    images.mkdir()
    masks.mkdir()
    nibabel.save(nibabel.Nifti1Image(np.ones((8, 9, 10), "f4"), np.eye(4)), images / "c_0000.nii.gz")
    mask = np.zeros(shape, "u1")
    mask[2:4, 2:4, 2:4] = value
    nibabel.save(nibabel.Nifti1Image(mask, np.eye(4) if affine is None else affine), masks / "c.nii.gz")
    told = {"channel_names": {"0": "CT"}, "labels": {"background": 0, **labels}, "numTraining": 1}
    told |= {"file_ending": ".nii.gz", "overwrite_image_reader_writer": "NibabelIO"}
    (folder / "dataset.json").write_text(json.dumps(told))
    looking = importlib.import_module("nnunetv2.experiment_planning.verify_dataset_integrity")
    # A thread for its process, which would import everything anew.
    looking.multiprocessing = SimpleNamespace(get_context=lambda method: SimpleNamespace(Pool=ThreadPool))
    looking.verify_dataset_integrity(str(folder), 1)


@scene
def labels_with_gaps() -> None:
    integrity({"liver": 1, "spleen": 28})


@scene
def labels_unknown() -> None:
    integrity({"liver": 1}, value=28)


@scene
def geometry_of_shape() -> None:
    integrity({"liver": 1}, shape=(8, 9, 11))


@scene
def geometry_of_spacing() -> None:
    integrity({"liver": 1}, affine=np.diag([2.0, 1, 1, 1]))


@scene
def geometry_of_origin() -> None:
    """Of which nnU-Net only warns; something that nobody knows follows."""
    shifted = np.eye(4)
    shifted[:3, 3] = 50
    integrity({"liver": 1}, affine=shifted)
    raise ArithmeticError("nobody knows this one")


def scan(name: str, array: Any, affine: Any) -> None:
    import nibabel

    nibabel.save(nibabel.Nifti1Image(array, affine), name)


def segmentation(affine: Any, value: int = 1) -> list[dict[str, Any]]:
    """An image, and a mask of it that may lie elsewhere; the rows of their index."""
    scan("image.nii.gz", np.ones((8, 9, 10), "i2"), np.eye(4))
    mask = np.zeros((8, 9, 10), "u1")
    mask[2:4, 2:4, 2:4] = value
    scan("mask.nii.gz", mask, affine)
    row = {"sample_id": "s1", "patient": "p1", "files": ["image.nii.gz"], "target": "mask.nii.gz", "split": "train"}
    return [row]


@scene
def geometry_in_our_words() -> None:
    from shared.training.checks import read_all, refuse
    from shared.training.masks import load_case

    moved = np.eye(4)
    moved[:3, 3] = 50
    refuse(read_all(segmentation(moved), lambda row: load_case(row, Path(), {"liver": 1})))


@scene
def labels_in_our_words() -> None:
    from shared.training.checks import read_all, refuse
    from shared.training.masks import load_case

    refuse(read_all(segmentation(np.eye(4), 28), lambda row: load_case(row, Path(), {"liver": 1})))


@scene
def data_refused() -> None:
    from shared.training.checks import read_all, refuse
    from shared.training.masks import load_case

    row = {"sample_id": "s", "files": ["gone.nii.gz"], "target": "gone.nii.gz"}
    refuse(read_all([row], lambda row: load_case(row, Path(), {"liver": 1})))


@scene
def stale_preprocessing_of_nnunet() -> None:
    """A case that was added to the dataset after nnU-Net had preprocessed it."""
    from nnunetv2.training.dataloading.nnunet_dataset import nnUNetDatasetBlosc2

    (folder := Path("nnUNet_preprocessed/Dataset001_x/nnUNetPlans_2d")).mkdir(parents=True)
    image, kept = np.zeros((1, 8, 8, 8), "f4"), {"spacing": [1, 1, 1]}
    nnUNetDatasetBlosc2.save_case(image, image.astype("i1"), kept, str(folder / "old"))
    data = nnUNetDatasetBlosc2(str(folder), ["old", "added"])
    print(data.load_case("old")[0].shape)
    data.load_case("added")


@scene
def checkpoint_of_another_network() -> None:
    torch.nn.Linear(3, 2).load_state_dict(torch.nn.Linear(3, 5).state_dict())


@scene
def checkpoint_of_another_optimizer() -> None:
    one, two = torch.nn.Linear(3, 2), torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2))
    state = torch.optim.AdamW(one.parameters()).state_dict()
    torch.optim.AdamW(two.parameters()).load_state_dict(state)


@scene
def batch_of_one() -> None:
    torch.nn.BatchNorm1d(3)(torch.zeros(1, 3))


def climb_with(rate: float, spoil: Callable[[Any], Any] = lambda loss: loss) -> None:
    from shared.training.configfile import Section
    from shared.training.tiers import climb

    class Training(Section):
        batch_size: int = 2
        accumulate: int = 1
        learning_rate: float = rate

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(4, 9), torch.nn.ReLU(), torch.nn.Linear(9, 2))

        def forward(self, image: Any, labels: Any) -> dict[str, Any]:
            return {"loss": spoil(torch.nn.functional.cross_entropy(self.layers(image), labels))}

    def item(number: int) -> dict[str, Any]:
        return {"image": torch.full((4,), float(number)), "labels": torch.tensor(number % 2)}

    torch.manual_seed(0)
    climb(
        Model(),
        [item(number) for number in range(4)],
        Training(),
        torch.device("cpu"),
        smaller="the input",
        seconds=math.inf,
    )


@scene
def nan_by_a_huge_rate() -> None:
    climb_with(1e36)


@scene
def nan_seen_by_torch() -> None:
    with torch.autograd.detect_anomaly():
        weight = torch.zeros(1, requires_grad=True)
        (weight.sqrt() * 0).sum().backward()


@scene
def not_learned() -> None:
    climb_with(1e-3, lambda loss: 100 + loss)


@scene
def dice_zero() -> None:
    """Three evaluations of a model that predicts nothing; then it fails for a reason that nobody knows."""
    from shared.training.dice import score_case, summary
    from shared.training.progress import tell_progress

    truth = np.zeros((8, 8, 8), int)
    truth[2:5, 2:5, 2:5] = 1
    for epoch in range(3):
        dice = summary([score_case(np.zeros_like(truth), truth, 1)], ["liver"])["dice"]
        tell_progress(epoch=epoch, metric=dice, metric_name="dice")
    raise ArithmeticError("nobody knows this one")


@scene
def missing_module() -> None:
    importlib.import_module("segmentation_models_pytorch")


@scene
def missing_package() -> None:
    importlib.metadata.version("segmentation-models-pytorch")


@scene
def missing_library() -> None:
    ctypes.CDLL("libGLnone.so.1")


@scene
def no_gpu() -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    torch.zeros(1).cuda()


@scene
def process_group() -> None:
    """The other process never comes."""
    where = {"init_method": "tcp://127.0.0.1:0", "rank": 0, "world_size": 2}
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=1), **where)


@scene
def unknown() -> None:
    raise ArithmeticError("nobody knows this one")


def run(name: str, folder: Path) -> int:
    """The exit code; all output goes to a file, as the runner has it."""
    (own := folder / name).mkdir()
    (Path("/dev/shm") / FILLS).unlink(missing_ok=True)
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.dup2(os.open(folder / f"{name}.out", os.O_WRONLY | os.O_CREAT), 1)
    os.dup2(1, 2)
    os.chdir(own)
    threading.Timer(100, os._exit, (99,)).start()  # a scene that hangs
    code = 0
    try:
        SCENES[name]()
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[1] / "templates" / "nnunet")]
    os.environ.update(nnUNet_raw="raw", nnUNet_preprocessed="preprocessed", nnUNet_results="results")
    os.environ.update(MPLCONFIGDIR=sys.argv[1], OMP_NUM_THREADS="1")
    import nnunetv2.experiment_planning.verify_dataset_integrity
    import nnunetv2.imageio.reader_writer_registry
    import nnunetv2.training.dataloading.nnunet_dataset
    import numpy as np
    import torch
    import trainer  # noqa: F401

    import shared.training.tiers  # noqa: F401

    torch.set_num_threads(1)
    # What these load when they are first asked takes seconds, which the scenes need not spend each.
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)])
    importlib.import_module("nibabel")
    nnunetv2.imageio.reader_writer_registry.recursive_find_reader_writer_by_name("NibabelIO")
    print(json.dumps({name: run(name, Path(sys.argv[1])) for name in SCENES if name not in sys.argv}))
