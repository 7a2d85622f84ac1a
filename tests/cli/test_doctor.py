"""What `m3builder doctor` says of the packages that a training needs."""

import subprocess
import sys
from pathlib import Path
from sysconfig import get_path

ROOT = Path(__file__).parents[2]
CODE = """
import sys
sys.path.append(sys.argv[1])
from services.command import doctor
for one in doctor._installed():
    print(one.verdict, one.what, one.found)
"""


def test_what_a_training_lacks_is_named(tmp_path: Path) -> None:
    def said() -> list[str]:
        command = [sys.executable, "-S", "-c", CODE, str(tmp_path)]
        env = {"PYTHONPATH": str(ROOT), "PATH": ""}
        return subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()

    for entry in Path(get_path("purelib")).iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    assert not any("for training" in line for line in said())
    for entry in [*tmp_path.glob("[sS]imple[iI][tT][kK]-*.dist-info"), *tmp_path.glob("h5py-*.dist-info")]:
        entry.unlink()
    assert said()[-1] == "bad for training not installed: h5py, simpleitk; pip install 'm3builder[ml,score]'"
