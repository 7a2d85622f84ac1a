"""The part that chooses the weights: the index's own, or a fold by patient that the configuration names."""

from shared.training.masks import Fold, fold_problems, folded

ROWS = [
    {"sample_id": f"s{number}", "patient": f"p{number // 2}", "split": "test" if number > 19 else "train"}
    for number in range(24)
]


def test_every_patient_is_held_out_once_and_whole():
    held_out = []
    for number in range(4):
        rows = folded(ROWS, Fold(count=4, number=number))
        sides = {split: {row["patient"] for row in rows if row["split"] == split} for split in ("train", "val", "test")}
        assert not sides["train"] & sides["val"] and sides["test"] == {"p10", "p11"}
        assert 2 <= len(sides["val"]) <= 3 and len(sides["train"]) + len(sides["val"]) == 10
        held_out += sorted(sides["val"])
        # Neither the order of rows nor other patients' splits have a say.
        assert folded(ROWS[::-1], Fold(count=4, number=number))[::-1] == rows
    assert sorted(held_out) == sorted({row["patient"] for row in ROWS if row["split"] != "test"})


def test_folds_that_cannot_be_made_are_named():
    assert [problem.text for problem in fold_problems(ROWS, Fold(count=11, number=11))] == [
        "number 11 is none of 0 to 10",
        "10 patients are too few for 11 folds; take fewer folds",
    ]
    assert fold_problems(ROWS, Fold(count=10, number=9)) == []


def test_a_training_takes_the_fold_and_refuses_one_that_cannot_be(organs):
    organs.organs(6)
    for row in organs.rows:
        row["split"] = "train"
    organs.write()
    small = {"model": {"width": 4, "levels": 2}, "training": {"epochs": 1}}
    organs.settings(fold={"count": 3, "number": 2}, **small)
    done = organs.train()
    assert done.returncode == 0, done.stdout + done.stderr
    assert organs.metrics()["samples"] == {"train": 4, "val": 2}
    organs.settings(fold={"count": 7}, **small)
    done = organs.train()
    assert done.returncode == 2 and "- fold: 6 patients are too few for 7 folds" in done.stderr
    # Nothing of the training before was touched.
    assert organs.metrics()["samples"] == {"train": 4, "val": 2} and (organs.workspace / "cache").is_dir()
