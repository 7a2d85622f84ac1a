"""Print a hashed lock without PyTorch and what only its CUDA build needs, for machines that bring another build."""

import re
import sys
from pathlib import Path

NOT_NEEDED = re.compile(r"^(torch|torchvision|triton|nvidia-[\w-]+|cuda-[\w-]+)(==| @|\s|\[)")


def main() -> None:
    keep = True
    for line in Path(sys.argv[1]).read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            keep = not NOT_NEEDED.match(line)
        if keep:
            print(line)


if __name__ == "__main__":
    main()
