"""The figures that the scorer knows, by task, and the other names that people use for them."""

from collections.abc import Mapping

from shared.contracts.base import TaskKind

KAPPA = "quadratic_kappa"
"""Of classes that are grades."""
LOWEST: Mapping[str, float] = {KAPPA: -1.0}
"""Ends of scales that do not begin at 0."""
METRICS: Mapping[TaskKind, tuple[str, ...]] = {
    "diagnosis": ("auc_macro", "balanced_accuracy", "accuracy", "f1_macro", KAPPA),
    "organ_segmentation": ("dice",),
    "anomaly_detection": ("dice",),
    "report_generation": ("rouge_l", "bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "cider_d"),
}

_ALIASES = {
    "auc": "auc_macro",
    "roc_auc": "auc_macro",
    "auroc": "auc_macro",
    "macro_auc": "auc_macro",
    "f1": "f1_macro",
    "macro_f1": "f1_macro",
    "acc": "accuracy",
    "balanced_acc": "balanced_accuracy",
    **dict.fromkeys(("qwk", "kappa", "weighted_kappa", "quadratic_weighted_kappa", "cohen_kappa"), KAPPA),
    "dsc": "dice",
    "dice_score": "dice",
    "dice_coefficient": "dice",
    "mean_dice": "dice",
    "bleu": "bleu_4",
    **{f"bleu{n}": f"bleu_{n}" for n in range(1, 5)},
    "rouge": "rouge_l",
    "rougel": "rouge_l",
    "rouge_l_f": "rouge_l",
    "cider": "cider_d",
    "ciderd": "cider_d",
}


def canonical(name: str, task: TaskKind | None = None) -> str | None:
    """The name under which the scorer knows a metric (`AUC` -> `auc_macro`), of one task or of any; else None."""
    short = name.strip().lower().replace("-", "_").replace(" ", "_")
    short = _ALIASES.get(short, short)
    known = METRICS.get(task, ()) if task else {name for names in METRICS.values() for name in names}
    return short if short in known else None
