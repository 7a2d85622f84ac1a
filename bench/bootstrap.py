"""How long the scorer's interval takes: 1,000 resamples of 1,000 cases, AUC of 3 classes, one patient a case.

Prints the best of three rounds beside the time of scikit-learn for as many AUCs. Exit code 1 when the bar of 5 s is
missed.

    python -m bench.bootstrap [CASES] [RESAMPLES]
"""

import resource
import sys
import time

import numpy as np
from sklearn.metrics import roc_auc_score

from services.scorer.classes.metrics import Cases, bootstrap

BAR_SECONDS = 5.0
ROUNDS = 3
FEW = 50
"""AUCs that scikit-learn is timed on; the whole number would tell no more."""


def main() -> int:
    given = [int(word) for word in sys.argv[1:]]
    count, draws = (*given, *(1000, 1000)[len(given) :])
    rng = np.random.default_rng(0)
    truth = np.arange(count) % 3
    scores = rng.dirichlet(np.ones(3), count) + 0.3 * np.eye(3)[truth]
    scores /= scores.sum(axis=1, keepdims=True)
    cases = Cases(truth, scores, scores.argmax(axis=1), np.arange(count), ("a", "b", "c"))
    times = []
    for seed in range(ROUNDS):
        began = time.perf_counter()
        found = bootstrap(cases, "auc_macro", draws, seed)
        times.append(time.perf_counter() - began)
        assert found is not None
    began = time.perf_counter()
    for _ in range(FEW):
        drawn = rng.integers(0, count, count)
        roc_auc_score(truth[drawn], scores[drawn], multi_class="ovr")
    plain = (time.perf_counter() - began) * draws / FEW
    best, memory = min(times), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count} cases, {draws} resamples, AUC of 3 classes: [{found.low:.3f}, {found.high:.3f}]")
    print(f"seconds {best:.2f} (rounds {', '.join(f'{one:.2f}' for one in times)}), bar {BAR_SECONDS:.0f}")
    print(f"scikit-learn {plain:.1f} s, ratio {best / plain:.2f}; peak memory {memory:.0f} MB")
    return 0 if best <= BAR_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
