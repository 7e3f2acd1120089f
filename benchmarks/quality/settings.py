"""How the benchmark was run, in words; the code is in `plan.py`, `encoding.py` and `methods.py`."""

from __future__ import annotations

# Most rows with which a dataset gets so many folds; larger ones are split once.
N_FOLDS = {1_000: 10, 5_000: 5, 15_000: 3}

# Of datasets with more cells than this only the first folds are tested, to keep the benchmark within hours.
MOST_CELLS = 100_000
FIRST_FOLDS = 3

COMMAND = "make quality DATA=folder"
PACKAGES = ("scikit-learn", "lightgbm", "numpy", "pandas")
SETTINGS = {
    "folds": "; ".join(f"{n} stratified up to {most:,} rows" for most, n in N_FOLDS.items())
    + "; of sets of more than 100,000 cells the first three folds"
    + "; above, the donors' train/test split. The same for all methods.",
    "halves": "by the parity of the first byte of the SHA-256 of a dataset's related group, or else of its name; even: "
    "development. Choices were made on the development half, but for what comes next.",
    "what the report half was not spared": "That rare classes have to be calibrated on too was noticed on lenses, of "
    "the report half. One rule of fan_cv, five rows or more for each exponent, was made after results of both halves "
    "had been seen, for a fault seen on noise and on small sets. The constant B of the variance's prior, which all of "
    "the library's methods share, was chosen before there were halves: by log loss and accuracy of naive Bayes and FAN "
    "in five folds of 15 small UCI sets. Which ones was not recorded, so some of them may be of the report half.",
    "scores": "log loss with probabilities of the true class of at least 1e-15; a class that the training part lacks "
    "has probability 0. ROC area: mean over classes of one against the rest. Brier: summed over classes.",
    "peers": "as their documentation recommends; where it leaves a choice, the lower log loss on two folds of 14 "
    "development sets decided: temperature against sigmoid, for forest and LightGBM; one-hot against ordinal "
    "categories, a draw for the forest; LightGBM's own categories against one-hot; "
    "smaller leaves of boosting, not better.",
    "nb, nb_mdlp, fm, fan, fan_cv": "the library's classifiers with their defaults; nb_mdlp with MDL discretisation.",
    "logistic": "LogisticRegressionCV: 10 strengths, 5 inner folds, by log loss. Numbers scaled, missing ones set to "
    "the median and marked; categories and their absence one-hot.",
    "forest": "RandomForestClassifier of 300 trees; numbers with missing ones as they are, categories one-hot.",
    "boosting": "HistGradientBoostingClassifier with its defaults, own treatment of categories and missing values.",
    "lightgbm": "LGBMClassifier with its defaults and own treatment of missing values; categories its own way from "
    "2,000 rows, below one-hot, as its own way asks for 100 rows in a group of categories.",
    "lightgbm_tuned": "learning rate 0.05; leaves, least leaf and rounds (up to 500, early stopping) by lightgbm.cv on "
    "5 inner folds, one of them above 2,000 rows; then fitted to all rows.",
    "..._calibrated": "CalibratedClassifierCV, temperature, 5 inner folds, whose mean predicts; forests of 100 trees, "
    "logistic regressions with the penalty chosen before. The single member of a class is in no part calibrated on. "
    "The binning of HistGradientBoostingClassifier fails where a column has no value in any row of an inner fit; such "
    "a fold has no result.",
}
