"""How a template's train.py ends: what is raised becomes words on stderr and an exit code, refused data a file, too."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from shared.imaging.volume import BadImage
from shared.training import ranks
from shared.training.checks import DataProblems, TrainingFailed
from shared.training.configfile import ConfigError
from shared.training.imports import NotExportable
from shared.training.index import IndexInvalid

REFUSED = Path("problems.json")
"""What a training that refuses its data says of each sample, or of the whole by its name."""
WRONG = (ConfigError, IndexInvalid, DataProblems, BadImage, NotExportable, FileNotFoundError)


def exit_code(train: Callable[[], int]) -> int:
    """0 done, 1 the training failed, 2 configuration or data are wrong, 143 stopped by SIGTERM."""
    try:
        code = train()
    except (*WRONG, TrainingFailed) as error:
        if ranks.first():
            print(error, file=sys.stderr)
            if isinstance(error, DataProblems):
                REFUSED.write_text(json.dumps(error.by_name))
        code = 2 if isinstance(error, WRONG) else 1
    return ranks.leave(code)
