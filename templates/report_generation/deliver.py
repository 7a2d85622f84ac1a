"""What a training hands over: package/, val_reports.json, then metrics.json, which says that all is done."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import images
import pretrained
import torch
from data import Cases, channel_names
from metrics import image_dependence, scores
from words import plain

from shared.training.dice import mean
from shared.training.package import PackageFacts, described, write_package, write_results
from shared.training.progress import write_json, write_text
from shared.training.saved import save_weights
from shared.training.told import of_cases

DEPENDS = 0.05
"""Share of shuffles that may do as well as the right images before the model is said not to use them."""
UNUSED = (
    "The reports are hardly better with a case's own images than with those of another: do not use this model. "
    "It needs more data, more training, or a larger input."
)

MADE_OF = {
    "decoder": "At most {tokens} tokens are written; words that no training report has hardly ever are.",
    "sentences": "Reports are put together from {sentences} sentences: three or more training patients have each, or "
    "each run of four words of it.",
}


def deliver(
    config: Any,
    network: torch.nn.Module,
    sets: Mapping[str, Cases],
    answers: Sequence[str],
    run: Mapping[str, Any],
    more: Mapping[str, Any],
) -> None:
    """`answers` are validation reports, `run` has epochs, seconds and device; `more` stands in metrics.json, too."""
    data, judged = sets["train"], sets["val"]
    if config.text.writer == "sentences":
        network.decoder = network.hint = None  # a package is built without them
    references = [plain(row["target"]) for row in judged.rows]
    owed = image_dependence(references, answers, [str(row["patient"]) for row in judged.rows])
    unused = (UNUSED,) if (owed["image_dependence_p"] or 0.0) > DEPENDS else ()
    how, views = config.preprocess, config.preprocess.views
    deep = len(how.input_shape) == 3
    one = "a scan (NIfTI, DICOM, NRRD, ...)" if deep else "an image (PNG, JPG, DICOM, ...)"
    facts = PackageFacts(
        task="report_generation",
        label_names=(),
        input_text=(
            f"One INPUT is {one} or a folder; a folder's {'scans' if deep else 'images'} are views of one case in "
            f"natural order, of which at most {views} are looked at. {images.told(how)} The output is the text of a "
            "report."
        ),
        input_shape=(views * how.channels, *how.input_shape),
        value_range=images.value_range(how),
        channel_names=channel_names(views, how.channels),
        output="text",
        counts={split: {"reports": len(cases)} for split, cases in sets.items()},
        metric_name=config.training.metric,
        metrics={**scores(references, answers), **owed},
        model=f"{described(network)}, {data.vocabulary} tokens",
        loss=described(getattr(network, "loss", None)),
        augmentation=described(data.augment),
        weights=pretrained.told(pretrained.file_of(config.model.weights)) if config.model.weights else "",
        parameters=sum(weight.numel() for weight in network.parameters()),
        limits=(
            "Text metrics count words, not whether a finding is right; most words of a report are the same in all.",
            "image_dependence is what rouge_l loses when each case is given the images of another patient.",
            MADE_OF[config.text.writer].format(tokens=config.text.max_tokens, sentences=len(data.telling.sentences)),
            *unused,
        ),
        **run,
    )
    kept = config.model_dump(mode="json", include={"preprocess", "text", "model", "loss"})
    kept["model"]["weights"] = None
    tokenizer, telling = Path("checkpoints/tokenizer.json"), Path("checkpoints/telling.json")
    write_text(tokenizer, data.words.text)
    write_text(telling, data.telling.text)
    write_package(
        Path("package"),
        predict=Path(__file__).with_name("predict.py"),
        files=[tokenizer, telling],
        save_weights=lambda path: save_weights(network, path),
        config={"task": facts.task, **kept},
        facts=facts,
    )
    cases: list[dict[str, Any]] = [
        {
            "id": str(row["sample_id"]),
            "figure": scores([report], [answer])["rouge_l"],
            "truth": report,
            "answer": answer,
        }
        for row, report, answer in zip(judged.rows, references, answers, strict=True)
    ]
    written = [{"sample_id": case["id"], "report": case["truth"], "written": case["answer"]} for case in cases]
    write_json(Path("val_reports.json"), written)

    def rouge(some: Sequence[int], _: Sequence[str]) -> float | None:
        return mean([cases[k]["figure"] for k in some]) if config.training.metric == "rouge_l" else None

    more = {**more, **of_cases(cases, [str(row["patient"]) for row in judged.rows], rouge)}
    more = {**more, "distinct_reports": len(set(answers)), "warnings": list(unused)}
    write_results(facts, samples={split: len(cases) for split, cases in sets.items()}, more=more)
    for warning in unused:
        print(f"warning: {warning}", flush=True)
