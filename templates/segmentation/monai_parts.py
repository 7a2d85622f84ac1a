"""What this template uses of MONAI: `from monai_parts import nets`. MONAI imports all of itself and what it finds of
the libraries below; without them that takes 2 seconds in place of 6, with which each program here would begin.
Networks of MONAI that need one of them (TransChex, TorchVisionFCModel) want its name taken out of the list."""

import sys

UNUSED = ("torchvision", "transformers", "matplotlib", "skimage", "pandas", "sklearn")

hidden = [name for name in UNUSED if name not in sys.modules]
sys.modules.update(dict.fromkeys(hidden))  # an import of None fails at once, and MONAI goes on without
try:
    from monai import transforms
    from monai.data import set_track_meta
    from monai.inferers import sliding_window_inference
    from monai.networks import nets
finally:
    for name in hidden:
        del sys.modules[name]

__all__ = ["nets", "set_track_meta", "sliding_window_inference", "transforms"]
