"""Tokenizer, text metrics and views of the report template, and what the probes say of a text."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from tests.templates.conftest import modules

ROOT = Path(__file__).parents[2]
REPORTS = (
    "Findings: The heart is normal in size. Lungs are clear.\nImpression: No acute disease.",
    "Findings: There is a 2.5 cm nodule in the left upper lobe. Lungs are otherwise clear. Impression: Nodule.",
    "Findings: The heart is enlarged (XXXX). Impression: Cardiomegaly; no effusion.",
)


@pytest.fixture(scope="module")
def template():
    """The template's modules by name."""
    return vars(
        modules("report_generation", "config", "data", "images", "learning", "metrics", "telling", "words", "writing")
    )


@pytest.fixture(scope="module")
def probe():
    folder = str(ROOT / "services" / "tool_runner" / "probes")
    sys.path.insert(0, folder)
    try:
        yield importlib.import_module("_reports")
    finally:
        sys.path.remove(folder)


def test_a_report_comes_back_from_its_tokens(template, tmp_path):
    words = template["words"].learn(REPORTS * 2, 1000)
    (tmp_path / "tokenizer.json").write_text(words.text)
    again = template["words"].load(tmp_path / "tokenizer.json")
    for report in REPORTS:
        assert again.decode(again.encode(report)) == " ".join(report.split())
        assert again.encode(report) == words.encode(report)
    # The same reports give the same tokenizer: a resumed training must mean the same by each number.
    assert template["words"].learn(REPORTS * 2, 1000).text == words.text


def test_what_no_training_report_has_is_spelled_out(template):
    unseen = "The spleen is enlarged."
    assert (found := template["words"].learn(REPORTS * 2, 1000)).decode(found.encode(unseen)) == unseen


def test_labels_end_and_are_padded_with_what_the_loss_ignores(template):
    words = template["words"].learn(REPORTS * 2, 1000)
    tokens = words.encode(REPORTS[2])
    labels = words.labels(REPORTS[2], len(tokens) + 3)
    assert labels == [*tokens, template["words"].END, -100, -100]
    assert words.labels(REPORTS[2], 5) == tokens[:5]
    assert words.decode([*tokens, template["words"].END, 7, 7]) == REPORTS[2]
    special = [words.tokenizer.token_to_id(name) for name in template["words"].SPECIAL]
    assert special == [0, 1, 2, 3], "model and package know them by their numbers"


def test_scores_agree_with_figures_by_hand(template):
    metrics = template["metrics"]
    found = metrics.scores(["the heart is normal in size."], ["The heart is large in size"])
    assert found["bleu_1"] == pytest.approx(5 / 6) and found["bleu_2"] == pytest.approx((5 / 6 * 3 / 5) ** 0.5)
    assert found["rouge_l"] == pytest.approx(5 / 6) and found["bleu_4"] < 1e-3
    short = metrics.scores(["a b c d e f g h"], ["a b c d"])
    assert short["bleu_4"] == pytest.approx(np.exp(-1))
    assert short["rouge_l"] == pytest.approx(2.44 * 1 * 0.5 / (0.5 + 1.44 * 1))
    assert metrics.scores(["one"], [""])["rouge_l"] == 0


def test_image_dependence_tells_reading_from_reciting(template):
    depends = template["metrics"].image_dependence
    truth = ["disc on the left", "no disc at all", "disc on the right"] * 8
    patients = [f"p{number}" for number in range(24)]
    reading = depends(truth, truth, patients)
    assert reading["image_dependence"] > 0.2 and reading["image_dependence_p"] == pytest.approx(0.01)
    reciting = depends(truth, ["disc on the left"] * 24, patients)
    assert reciting["image_dependence"] == pytest.approx(0) and reciting["image_dependence_p"] == 1
    assert depends(truth[:1], truth[:1], patients[:1])["image_dependence"] is None


def test_files_of_a_case_are_views_slices_or_channels(template, tmp_path):
    for number in range(3):
        Image.fromarray(np.full((8, 8), 10 * number, np.uint8) + np.eye(8, dtype=np.uint8)).save(
            tmp_path / f"{number}.png"
        )
    files = sorted(tmp_path.iterdir())
    read = template["images"].read

    def how(views, channels=1, shape=(8, 8)):
        settings = {"views": views, "channels": channels, "input_shape": shape}
        return template["config"].Preprocess(intensity="window", window=(0.0, 20.0), **settings)

    found = read(files[1:], how(3))
    assert found.shape == (3, 8, 8) and found[0, 0, 1] == pytest.approx(0) and found[1, 0, 1] == 1
    assert not found[2].any()
    assert read(files, how(2)).shape == (2, 8, 8)
    found = read(files, how(1, shape=(3, 8, 8)))
    assert found.shape == (1, 3, 8, 8) and found[0, :, 0, 1].tolist() == [-1, 0, 1]
    # Of colour each is a view, grey ones repeated; where two channels are no colours, two files are one view.
    found = read(files, how(2, channels=3))
    assert found.shape == (6, 8, 8) and found[:, 0, 1].tolist() == [-1] * 3 + [0] * 3
    found = read(files[1:], how(2, channels=2))
    assert found.shape == (4, 8, 8) and found[:2, 0, 1].tolist() == [0, 1] and not found[2:].any()


def test_probe_names_a_decoder_that_does_not_see_the_images(probe):
    import torch

    class Reciting(torch.nn.Module):
        def forward(self, image, labels):
            return {"logits": torch.nn.functional.one_hot(labels.clamp(min=0), 9).float()}

    class Reading(torch.nn.Module):
        def forward(self, image, labels):
            return {"logits": image.mean((1, 2, 3))[:, None, None].expand(*labels.shape, 9)}

    batch = {"image": torch.rand(3, 1, 4, 4), "labels": torch.ones(3, 5, dtype=torch.long)}
    assert "does not see" in probe.image_faults(Reciting(), batch)[0]
    assert probe.image_faults(Reading(), batch) == []


def test_probe_names_wrong_labels_and_predictions(probe):
    import torch

    errors = []
    labels = torch.tensor([[4, 5, 2, -100], [4, -100, 9, 2], [-100] * 4])
    told = probe.describe_labels("train", labels, 6, errors)
    assert told == {"tokens": 6, "longest": 3, "different reports": 3}
    assert [line.partition(": ")[2].split()[0] for line in errors] == ["token", "1", "labels"]
    right = {"task": "report_generation", "cases": [{"input": "a", "report": "x"}, {"input": "b", "report": " "}]}
    assert probe.schema_faults(right, ["a", "b"]) == ["b must have a report, a text that is not empty: ' '"]
    assert probe.schema_faults({**right, "task": "diagnosis"}, ["a", "b"])
    assert probe.schema_faults(right, ["b", "a"]) == [
        "cases must hold one entry for each input, under the input's name and in their order"
    ]
    facts = {"errors": []}
    probe.judge([{"input": "a", "report": "x"}, {"input": "b", "report": "x  "}], [("a", "b")], facts)
    assert facts["output_follows_image"] is False and "does not use the image" in facts["errors"][0]


def _said(template, cases):
    """What `cases` reports a finding or none, and each also something of their own, are learned to."""
    normal, ill = "The lungs are clear. No effusion.", "The left lung is collapsed. Large effusion."
    rows = [
        {
            "target": f"Our patient Quackenbush {number} came. {ill if number % 4 == 0 else normal} Thank you.",
            "patient": str(number),
        }
        for number in range(cases)
    ]
    words, telling = template["learning"].learn(rows, 1000, 64)
    return words, telling, np.mean([telling.facts(row["target"], words) for row in rows], 0)


def test_a_report_is_made_of_sentences_that_patients_share_and_suits_what_is_likely(template, tmp_path):
    words, telling, share = _said(template, 40)
    (tmp_path / "telling.json").write_text(telling.text)
    telling = template["telling"].load(tmp_path / "telling.json")
    assert "Quackenbush" not in telling.text and len(telling.facts("", words)) == len(telling)
    # Without any evidence, what most reports are like; with evidence, what it speaks for.
    assert telling.report(share) == "The lungs are clear. No effusion. Thank you."
    ill = telling.facts("The left lung is collapsed. Large effusion. Thank you.", words)
    # Ill in 48 % and in 62 % of what may be: the text of the likelier half is expected to be more alike.
    assert telling.report(0.7 * share + 0.3 * ill) == "The lungs are clear. No effusion. Thank you."
    assert telling.report(0.5 * share + 0.5 * ill) == "The left lung is collapsed. Large effusion. Thank you."
    # Images that are hardly trusted have to say more.
    half = replace(telling, trust=0.5)
    assert half.report(0.5 * share + 0.5 * ill) == "The lungs are clear. No effusion. Thank you."
    assert half.report(ill) == "The left lung is collapsed. Large effusion. Thank you."


def test_the_nearest_shared_sentence_stands_for_one_that_few_have(template):
    shared = ["There is a large mass in the left lobe.", "No effusion.", "Ventricles are of normal size."]
    stands_for = template["learning"].nearest(shared)
    assert [stands_for(one) for one in shared] == [0, 1, 2]
    assert stands_for("There is a large mass in the left lobe, behind the horn.") == 0
    assert stands_for("Ventricles are of usual size.") == 2
    assert stands_for("Sutures after surgery.") is None
    # What nobody else says is not in the package, and where much like it is said the text is not shorter for it.
    rows = [{"target": f"{shared[0]} {shared[1]}", "patient": n} for n in range(3)]
    own = "There is a large mass in the left lobe near Quackenbush."
    rows += [{"target": f"{own} {shared[2]}", "patient": 4}, {"target": shared[2], "patient": 5}]
    rows += [{"target": shared[2], "patient": 6}]
    _, telling = template["learning"].learn(rows, 1000, 64)
    assert "Quackenbush" not in telling.text
    texts = [[telling.sentences[n] for n in text] for text in telling.texts]
    assert [shared[0], shared[2]] in texts


def test_a_sentence_is_shared_where_three_patients_have_each_run_of_four_words_of_it(template):
    """Kind, side and place make a sentence of its own for nearly everybody, out of words that many have."""
    kinds, sides, lobes = ("compact", "hollow"), ("left", "right"), ("frontal", "parietal")
    said = [f"A {kind} mass was found in the {side} {lobe} lobe." for kind in kinds for side in sides for lobe in lobes]
    # Two patients have each; of 4 words in a row the rarest, `the left frontal lobe`, four.
    rows = [{"target": f"{text} No shift.", "patient": 2 * n + twin} for n, text in enumerate(said) for twin in (0, 1)]
    own = "A compact mass was found in the left frontal lobe of Quackenbush."
    _, telling = template["learning"].learn([*rows, {"target": f"{own} No shift.", "patient": 99}], 1000, 64)
    assert sorted(telling.sentences) == sorted([*said, "No shift."])
    # What images are asked for is what three patients say in full.
    assert list(telling.sentences[: telling.asked]) == ["No shift."]
    texts = [[telling.sentences[n] for n in text] for text in telling.texts]
    assert sorted(texts) == sorted([text, "No shift."] for text in said)


def test_of_many_texts_those_are_kept_that_stand_anywhere(template, monkeypatch):
    """Index rows stand in an order, by disease for instance."""
    monkeypatch.setattr(template["learning"], "TEXTS", 20)
    signs = [f"Sign {one} is seen." for one in "abcdefg"]
    rows = [
        {"target": f"{kind} {one} {other}", "patient": f"{kind} {one} {other}"}
        for kind in ("There is a mass.", "There is a scar.")
        for one in signs
        for other in signs
    ]
    _, telling = template["learning"].learn(rows, 1000, 64)
    kinds = [telling.sentences[text[0]] for text in telling.texts]
    assert len(kinds) == 20 and 5 <= kinds.count("There is a mass.") <= 15


def test_images_are_trusted_as_far_as_validation_cases_bear_it(template):
    words, telling, share = _said(template, 40)
    normal, ill = (
        "The lungs are clear. No effusion. Thank you.",
        "The left lung is collapsed. Large effusion. Thank you.",
    )
    truth = [ill, *[normal] * 3] * 2
    right = [telling.facts(text, words) for text in truth]
    # Surely ill in three of eight, of which one is.
    wrong = [telling.facts(text, words) for text in (ill, ill, ill, *[normal] * 5)]
    sure = [0.5 * share + 0.5 * np.array(line) for line in wrong]
    sure[0] = np.array(wrong[0])

    def trust(likely):
        return template["writing"].trusted(telling, likely, truth, "rouge_l").trust

    assert trust(right) == 1 and trust(sure) < 1


@pytest.mark.parametrize(
    ("seconds", "whole", "writer"),
    [(30, None, "sentences"), (None, None, "either"), (400, None, "either"), (30, 400, "either")],
)
def test_a_cpu_with_little_time_a_case_trains_no_decoder(template, seconds, whole, writer):
    data = template["data"]
    _, telling, _ = _said(template, 40)
    wanted = SimpleNamespace(train_seconds=seconds, whole_seconds=whole)
    # More seconds a case than SECONDS_A_CASE, whatever the number of threads, or fewer on one of sixteen cores.
    assert data.choose_writer(wanted, telling, 40 if writer == "either" else 4000) == writer
    nothing = _said(template, 2)[1]
    assert data.choose_writer(wanted, nothing, 4000) == "either"


@pytest.mark.parametrize(
    ("shape", "most", "found"),
    [
        ((32, 64, 64), float("inf"), (32, 64, 64)),
        ((32, 64, 64), 30_000, (16, 40, 40)),
        ((8, 64, 64), 1, (8, 16, 16)),
        ((128, 96), 4_000, (72, 56)),
    ],
)
def test_images_are_made_smaller_on_all_axes_alike(template, shape, most, found):
    assert template["images"].within(shape, most) == found


def test_the_size_of_images_follows_from_time_and_number(template):
    def most(images, **given):
        training = SimpleNamespace(**{"train_seconds": 100, "whole_seconds": None} | given)
        return template["images"].affordable(SimpleNamespace(training=training, preprocess=how), images)

    how = SimpleNamespace(passes=12)
    assert most(100) == 2 * most(200) == most(100, train_seconds=50) * 2 == most(200, whole_seconds=200)
    assert most(100, train_seconds=None) == float("inf")
    how.passes = 0
    assert most(100) == float("inf")


def test_without_shared_sentences_the_decoder_writes(template):
    words, telling, _ = _said(template, 2)
    assert not telling.sentences
    assert len(telling.facts("No effusion.", words)) == len(telling) == len(telling.words)


def test_one_text_for_all_cases_is_chosen_last(template):
    merit = template["metrics"].merit
    assert (
        merit(0.9, ["clear"] * 3) < merit(0.0, ["clear", "nodule", "clear"]) < merit(0.1, ["clear", "nodule", "clear"])
    )
    assert merit(0.2, ["clear"] * 3) < merit(0.3, ["clear"] * 3)
