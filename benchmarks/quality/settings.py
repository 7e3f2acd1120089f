"""How the benchmark is run: folds, scenarios and time, as numbers that the code reads."""

from __future__ import annotations

# Datasets of at most so many rows: how often the cross-validation is repeated, its parts, and how many folds are run.
# Larger ones are split once, by the donors where they did.
OUTER = {500: (2, 5, 10), 2_000: (1, 5, 5), 5_000: (1, 5, 3)}

# Training parts of at most so many rows: inner folds. Larger ones hold out the first of five.
INNER = {1_000: 5, 5_000: 3}

# Seconds of the processor after which a fit, tuning included, counts as failed.
MOST_SECONDS = 600

# All but the complete tables: on datasets of at most so many rows, one of each group of related ones.
MOST_ROWS = 5_000
# Those of a group that are taken, as the suites have them; of the others only the complete tables are used.
ONE_OF_GROUP = frozenset(
    {"breast_cancer", "wdbc", "australian", "credit-approval", "heart-cleveland", "heart-statlog", "led7", "monks-1"}
    | {"soybean", "soybean-large", "splice", "hypothyroid-3163", "waveform-21"}
)

# What is done to the test part; one fit serves all of these.
AT_TEST = ("complete", "missing10", "missing30", "missing60", "column", "large", "shift")
# What is done to the training part: a fit each, on the first folds only.
FEW_ROWS = {"rows50": 50, "rows100": 100, "rows200": 200}
NOISE = {"noise10": 0.1}
AT_TRAINING = (*FEW_ROWS, *NOISE)
FIRST_FOLDS = 2


def tuning_seconds(n_rows: int, n_columns: int, n_classes: int) -> float:
    """Seconds of the processor that each tuned booster may search for, beside its final fit."""
    return min(1.1 + 1.3e-5 * n_rows * n_columns * n_classes, 100.0)


PACKAGES = ("scikit-learn", "lightgbm", "xgboost-cpu", "catboost", "interpret-core", "numpy", "pandas")
