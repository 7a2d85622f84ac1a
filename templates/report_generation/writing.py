"""Reports of the validation part: written at each evaluation and at the end, scored, held against the images."""

import math
import time
from typing import Any

import numpy as np
import torch
from config import Generation
from metrics import image_dependence, scores
from transformers import Trainer
from words import plain

from shared.trainkit import ranks
from shared.trainkit.images.task import Costs, Measured

GREEDY = Generation(beams=1)
DEPENDS = 0.05
"""Share of shuffles that may do as well as the right images before the model is said not to use them."""
UNUSED = (
    "The reports are hardly better with a case's own images than with those of another: do not use this model. "
    "It needs more data, more training, or a larger input."
)


class ReportTrainer(Trainer):
    """An evaluation is the loss over the validation part and the scores of greedy reports on an even draw of it."""

    def __init__(self, *, length: int, judged: int, **fields: Any) -> None:
        super().__init__(**fields)
        self.length = length
        self.judged = judged

    def evaluation_loop(self, dataloader: Any, description: str, *arguments: Any, **more: Any) -> Any:
        more["prediction_loss_only"] = True
        found = super().evaluation_loop(dataloader, description, *arguments, **more)
        data: Any = self.eval_dataset
        drawn = np.unique(np.linspace(0, len(data) - 1, min(self.judged, len(data))).round().astype(int)).tolist()
        answers = write_all(self.model, data, drawn, self.length, self.args.eval_batch_size, GREEDY)
        measured = scores([plain(data.rows[number]["target"]) for number in drawn], answers)
        prefix = more.get("metric_key_prefix", "eval")
        found.metrics.update({f"{prefix}_{name}": value for name, value in measured.items()})
        return found


def write_all(model: Any, data: Any, numbers: list[int], length: int, batch_size: int, how: Generation) -> list[str]:
    """Reports of these samples, in their order; each process writes its share."""
    mine = write_reports(model, data, numbers[ranks.number() :: ranks.count()], length, batch_size, how)
    shares = ranks.gathered(mine)
    return [shares[place % len(shares)][place // len(shares)] for place in range(len(numbers))]


def write_reports(
    model: Any, data: Any, numbers: list[int], length: int, batch_size: int, how: Generation
) -> list[str]:
    """Reports of these samples, in their order, by this process."""
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    texts: list[str] = []
    for start in range(0, len(numbers), batch_size):
        batch = [data[number]["image"] for number in numbers[start : start + batch_size]]
        found = model.write(torch.stack(batch).to(device), length, **how.model_dump())
        texts += [data.words.decode(line) for line in found]
    model.train(training)
    return texts


def measure(config: Any, model: Any, val_set: Any) -> Measured:
    everything = list(range(len(val_set)))
    length, size = config.text.max_tokens, config.training.batch_size
    answers = write_all(model, val_set, everything, length, size, config.generation)
    references = [plain(row["target"]) for row in val_set.rows]
    metrics = {
        **scores(references, answers),
        **image_dependence(references, answers, [str(row["patient"]) for row in val_set.rows]),
    }
    unused = (UNUSED,) if (metrics["image_dependence_p"] or 0.0) > DEPENDS else ()
    return Measured(
        metrics=metrics,
        more={"distinct_reports": len(set(answers)), "warnings": list(unused)},
        limits=(
            "Text metrics count words, not whether a finding is right; most words of a report are the same in all.",
            "image_dependence is what rouge_l loses when each case is given the images of another patient.",
            f"At most {length} tokens are written; words that no training report has hardly ever are.",
            *unused,
        ),
        files={
            "val_reports.json": [
                {"sample_id": str(row["sample_id"]), "report": reference, "written": answer}
                for row, reference, answer in zip(val_set.rows, references, answers, strict=True)
            ]
        },
    )


def costs(config: Any, model: Any, val_set: Any, batch_seconds: float) -> Costs:
    wanted = config.training
    writing = seconds_a_write(model, val_set, config.text.max_tokens, wanted.batch_size)
    # An evaluation has no backward pass: about a third of the work.
    evaluation = batches(len(val_set), wanted) * batch_seconds / 3
    evaluation += batches(min(wanted.judged, len(val_set)), wanted) * writing
    # Beams are rows of one batch: three cost far less than three times.
    final = batches(len(val_set), wanted) * writing * (1 + 0.3 * (config.generation.beams - 1))
    return Costs(evaluation=evaluation, final=1.5 * final)


def batches(count: int, wanted: Any) -> int:
    """That a process works through."""
    return math.ceil(count / wanted.batch_size / ranks.count())


def seconds_a_write(model: Any, data: Any, length: int, batch_size: int) -> float:
    """Seconds for the reports of one batch, written greedily to their full length. Leaves the random state as it is."""
    random_state = torch.get_rng_state()
    numbers = list(range(min(batch_size, len(data))))
    write_reports(model, data, numbers[:1], 2, 1, GREEDY)
    begin = time.monotonic()
    write_reports(model, data, numbers, length, batch_size, GREEDY)
    torch.set_rng_state(random_state)
    return time.monotonic() - begin
