"""What a finished training tells, as its core reads it."""

from services.tool_runner.telling import curve, in_words

LINES = [{"step": n, "epoch": n / 2, "loss": 1 / n, "metric": figure} for n, figure in enumerate((0.5, 0.8, 0.7), 1)]
DONE = {"epoch": 1.5, "epochs": 1.5, "metric": 0.9, "text": "done"}


def test_the_epoch_of_the_weights_is_told_once_by_one_name() -> None:
    metrics = {"metric_name": "dice", "metric": 0.9, "metrics": {"dice": 0.9}, "epochs": 1.5, "seconds": 3.2}
    found = curve([*LINES, DONE])
    assert found == {"metric": [0.5, 0.8, 0.7], "best": 0.8, "loss": [1.0, 0.5, 0.3333]}
    said = in_words(metrics | {"best_epoch": 1.0}, found, "")
    assert said.splitlines() == [
        "Validation: dice 0.9, 1.5 epochs in 3 s, weights of best_epoch 1",
        "Curve: metric 0.5 0.8 0.7 (best 0.8), loss 1 to 0.333",
    ]
    without = in_words(metrics | {"min_component_mm3": 50, "min_component_score": 0.0}, found, "")
    assert "pieces below 50 mm3 or probability 0 left out (not yet in the curve)" in without
    assert "pieces" not in in_words(metrics | {"min_component_mm3": 0, "min_component_score": None}, found, "")
    tried = {"mm3": {"0": 0.5, "3": 0.5}, "probability": {"0": 0.5, "0.9": 0.625}}
    lines = in_words(metrics | {"pieces_tried": tried}, found, "").splitlines()
    assert lines[-1] == "Dice over all cases by the least probability of a piece: 0 0.5, 0.9 0.625"
    healthy = in_words(metrics | {"metrics": {"dice_healthy": 0.5}}, found, "")
    assert "dice_healthy 0.5 (1 a case rightly left empty" in healthy
    assert "best_epoch" not in in_words(metrics, found, ""), "a template that keeps the last weights has none"


def test_without_progress_there_is_no_curve() -> None:
    assert curve([DONE]) == {} and "Curve" not in in_words({}, {}, "")
