"""What a report says of a run: every figure is the fact's own, and nothing is said that no fact says."""

from dataclasses import replace

from services.gateway.report.card import card
from services.gateway.report.facts import Details, Facts, Subgroup
from services.gateway.report.text import text
from services.gateway.report.verdict import verdict
from shared.contracts.runs import RunFinished, WorkReturned
from shared.contracts.scoring import Gate
from shared.contracts.training import JobFinished
from tests.asked import for_dataset
from tests.gateway import reported


def flat(told: str) -> str:
    return " ".join(told.split())


def section(told: str, title: str) -> str:
    """From a title to the next one."""
    lines = told.split("\n")
    start = lines.index(title)
    ends = (place for place in range(start + 2, len(lines)) if lines[place].startswith("----"))
    return "\n".join(lines[start + 2 : next(ends, len(lines) + 1) - 1])


def test_a_diagnosis_has_the_numbers_of_its_facts() -> None:
    facts = reported.diagnosis()
    told = text(facts, width=200)
    for words in (
        "auc_macro 0.877 [0.812, 0.941]",
        "accuracy 0.800 0.700 to 0.900 30 15",
        "pneumonia 10 0.880 0.800",
        "permutation 0.618",
        "Permutation test: p = 0.001.",
        "Acceptable range in auc_macro: floor 0.6, alarm 0.99 (from the card).",
        f"It rests on {' '.join(reported.RESTS_ON)}",
        "no_patient_on_both_sides passed held-out-3 of Chest Set",
        "Split made by the scorer, by patient",
        "Patients inferred: the start of file names",
        "train 90 45 covid-19 30, pneumonia 30, normal 30",
        "test 30 15 covid-19 10, pneumonia 10, normal 10",
        "unreadable 7",
        "Note of the Data Engineer: odd spacing in Chest Set",
        "same_patient 0 pairs across the split",
        "near_duplicate_in_given_split 2 told: the split came with the dataset and was left as it is train-8 / [sea",
        "30 test cases, 1 without a usable answer.",
        "held-out-29 p14 unreadable header",
        "train (this package) ok 1 min 23 s 1 bwrap",
        f"sha256 {'ab' * 32}",
        "data_engineer 4 1 min 1 s 5 s 40%",
        "Turns 9, with 11 actions",
    ):
        assert words in flat(told), told
    assert "partial" not in told
    wrong = section(told, "Cases").partition("5 answered wrong.")[2].count(" 0.")
    assert wrong == sum(case.predicted not in (None, case.label) for case in facts.details.cases) == 5


def test_the_level_is_explained_by_what_decided_it() -> None:
    assert verdict(reported.diagnosis()) == (
        "useful: all 2 gates passed, and the lower end 0.812 of the interval of auc_macro 0.877 is above the strongest "
        "control, permutation 0.618."
    )
    failed = verdict(reported.diagnosis(gate_fails=True))
    assert failed == "ran, not valid: gate no_patient_on_both_sides failed (held-out-3 of Chest Set)."
    told = reported.events()
    scored = told[-2][1].model_copy(update={"level": "valid"})
    low = scored.model_copy(update={"metric": scored.metric.model_copy(update={"low": 0.55})})  # type: ignore[attr-defined]
    valid = Facts.of([*told[:-2], (9, low)])
    assert verdict(valid).startswith("valid, not useful") and "0.550" in verdict(valid)
    assert "is not above the strongest control, permutation 0.618" in verdict(valid)


def test_a_segmentation_is_told_by_structure_and_by_its_worst_cases() -> None:
    told = text(reported.segmentation(), width=200)
    for words in (
        "dice 0.877 [0.812, 0.941]",
        "structure dice n missed invented liver 0.610 9 1 0",
        "A written rule.",
        "held-out-9 p9 no mask",
        "1 cases without any structure are left out of the mean.",
        "train 90 45",
    ):
        assert words in flat(told), told
    cases = section(told, "Cases")
    assert cases.index("held-out-9 ") < cases.rindex("held-out-4 ")


def test_a_failed_gate_is_named_with_its_evidence() -> None:
    told = flat(text(reported.diagnosis(gate_fails=True), width=200))
    assert "no_patient_on_both_sides FAILED held-out-3 of Chest Set" in told
    assert "Failed gate no_patient_on_both_sides" in told


def test_a_waiting_run_gives_a_partial_report() -> None:
    asked = reported.events()[0][1]
    needed = for_dataset(reported.RUN, "chest CT with masks", asked, two="is MRI")
    facts = Facts.of([(1, asked), (2, needed)])
    told = text(facts)
    for words in ("waiting_for_answer", "This report is partial", "Asks chest CT with masks", "two (is MRI)"):
        assert words in flat(told), told
    assert "Score" not in told and "Gates" not in told and "Leaks" not in told
    assert "this card is partial" in card(facts)
    assert "There is no independent score." in card(facts)


def test_every_beginning_of_a_run_can_be_reported() -> None:
    for told in (reported.events(), reported.events(masks=True)):
        for length in range(1, len(told)):
            facts = Facts.of(told[:length])
            assert "This report is partial" in text(facts) and "partial" in card(facts)


def test_a_run_that_failed_before_its_score_says_so() -> None:
    told = reported.events()[:3]
    end = RunFinished.make(
        run_id=reported.RUN, sender="task_manager", cause=told[-1][1], end="crashed", reason="the disk is full"
    )
    facts = Facts.of([*told, (4, end)])
    assert "none: the run ended as crashed; there is no package and no score." in flat(text(facts))
    assert "Why it ended the disk is full" in flat(text(facts))


def test_text_keeps_its_width_and_obeys_no_control_characters() -> None:
    told = text(reported.diagnosis(name=reported.HOSTILE + "x" * 300), width=80)
    assert max(len(line) for line in told.splitlines()) <= 80
    assert "\x1b" not in told


def test_the_card_holds_the_facts_and_no_test_sample() -> None:
    for facts in (reported.diagnosis(), reported.segmentation(), reported.diagnosis(gate_fails=True)):
        told = card(facts)
        assert "> Tell lungs apart in Chest Set" in told
        assert "0.877 \\[0.812, 0.941\\], 95 % interval by bootstrap over 15 patients" in told
        assert "Control permutation: 0.618" in told and "ab" * 32 in told
        assert "held-out" not in told
        assert not any(case.sample_id in told for case in facts.details.cases)
        for limit in (
            "Patients are inferred, not stated by the dataset (the start of file names).",
            "The figures rest on 15 test patients.",
            "7 files, rows or cases were left out",
            "The leak report counts 2 under near_duplicate_in_given_split.",
            *reported.RESTS_ON,
        ):
            assert limit in told, told
    assert "below useful" in told and "The gate no_patient_on_both_sides failed." in told
    assert "below useful" not in card(reported.diagnosis())
    assert "chance is not ruled out" not in told
    made = reported.events()
    unsure = made[-2][1].model_copy(update={"permutation_p": 0.1667})
    assert "p = 0.1667, above 0.05: chance is not ruled out." in card(Facts.of([*made[:-2], (9, unsure), made[-1]]))
    assert "- Epochs: 12\n- Parameters: 1,234,567" in card(reported.diagnosis())


def test_the_card_gives_no_markup_to_names() -> None:
    told = card(reported.diagnosis(name=reported.HOSTILE))
    assert "\\<script\\>" in told and "<script>" not in told
    assert "\\[l\\](http\\://evil.example)" in told and "\\_red\\_" in told


def test_what_was_tried_before_the_training_is_told() -> None:
    words = flat(text(Facts.of(reported.events()), width=200))
    assert "one_batch NO 3 s the loss of one batch fell from 1.2 to 1.1" in words
    assert "one_case yes 2 s loss 1.21" in words


def test_failed_jobs_and_work_handed_back_are_told() -> None:
    told = reported.events()[:7]
    common = {"run_id": reported.RUN, "cause": told[-1][1]}
    failed = JobFinished.make(
        **common, sender="tool_runner", job_id="train-1", job="train", asked_by="model_trainer", outcome="memory",
        summary="killed at 8 GiB", seconds=61,
    )  # fmt: skip
    back = WorkReturned.make(
        **common, sender="model_trainer", target="data_engineer", reason="two masks are empty", evidence={"samples": {}}
    )
    words = flat(text(Facts.of([*told, (8, failed)]), width=200))
    assert "train memory 1 min 1 s 1" in words and "Job train, memory: killed at 8 GiB" in words
    facts = Facts.of([*told, (8, failed), (9, back)])
    words = flat(text(facts, width=200))
    assert "handed back by to because model_trainer data_engineer two masks are empty" in words
    assert "Patients inferred" not in words, "what was handed back is no fact of the result"


def test_network_and_loss_are_what_ran_and_own_code_is_said() -> None:
    for told in (card(reported.diagnosis()), flat(text(reported.diagnosis(), width=200))):
        assert "resnet18, 3D" in told and "focal" in told and "resnet10" not in told and "Own code" not in told
    own = reported.diagnosis(own_code=("package/model.py", "train.py"))
    for told in (card(own), flat(text(own, width=200))):
        assert "package/model.py, train.py: network, loss and augmentation are its author's words" in told
        assert "resnet10, input 1x32x64x64" in told and "Loss" in told


def test_a_shortcut_stands_in_the_first_lines_and_holds_the_level_at_valid() -> None:
    told = reported.events()
    shortcut = Gate(name="no_shortcut", passed=False, evidence="the class can be told without the image, by format")
    changed = {"level": "valid", "gates": (told[-2][1].gates[0], shortcut)}  # type: ignore[attr-defined]
    scored = told[-2][1].model_copy(update=changed)
    facts = Facts.of([*told[:-2], (9, scored)], details=Details(why=(f"no_shortcut: {shortcut.evidence}",)))
    assert verdict(facts) == f"valid, not useful: no_shortcut: {shortcut.evidence}."
    first = section(text(facts, width=200), "Result")
    assert shortcut.evidence in first
    assert verdict(Facts.of([*told[:-2], (9, scored)])).endswith(f"gate no_shortcut failed ({shortcut.evidence}).")


def test_the_worst_subgroup_is_named_first_and_few_patients_have_no_figures() -> None:
    groups = (
        Subgroup(by="sex", group="female", cases=20, patients=11, value=0.912, low=0.8, high=0.97),
        Subgroup(by="sex", group="male", cases=18, patients=10, value=0.713, low=0.6, high=0.81),
        Subgroup(by="age", group="under 18"),
    )
    facts = reported.diagnosis()
    told = text(replace(facts, details=facts.details.model_copy(update={"subgroups": groups})), width=200)
    first = flat(section(told, "Result"))
    assert "Worst subgroup sex male: 0.713 (0.600 to 0.810), 10 patients; the best by sex 0.912" in first
    lines = flat(section(told, "Subgroups"))
    assert "sex female 0.912 0.800 to 0.970 20 11" in lines and "age under 18 - - fewer than 10" in lines
    assert "Subgroups" not in text(facts)
