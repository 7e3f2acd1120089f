"""The command `fanbayes evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanbayes.commands import options
from fanbayes.commands.comparison import FIGURES, SHARES, Evaluation, in_json, tell
from fanbayes.commands.options import Model
from fanbayes.commands.output import (
    WrongUse,
    note,
    require_target,
    shortened,
    warnings_as_notes,
)

if TYPE_CHECKING:
    from fanbayes.commands.rows import Reading

_DEFAULT_FOLDS = 10
_ALWAYS = (Model.NB, Model.FM, Model.FAN, Model.FAN_CV)  # what others are compared with
_OF_SHARES = ("accuracy", "conditional_entropy", "brier")  # measures that tell something of them


def evaluate(
    source: Annotated[
        Path,
        typer.Argument(
            help="Table of labelled rows to cross-validate models on, or a MODEL that `fanbayes fit` wrote.",
            metavar="DATA|MODEL",
            exists=True,
            dir_okay=False,
            show_default=False,
        ),
    ],
    target: options.Target,
    rows: Annotated[
        Path | None,
        typer.Argument(
            help="Labelled rows to test MODEL on.", metavar="ROWS", exists=True, dir_okay=False, show_default=False
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="A,B",
            help=f"Models to compare beside NB, FM, FAN and FAN CV: {', '.join(m for m in Model if m not in _ALWAYS)}.",
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            metavar="A,B",
            help="Classifiers of scikit-learn to compare as well: hgb, logistic, forest. A MODEL needs --train for it.",
        ),
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(
            "--train",
            help="Table that --against learns from: the one that MODEL was learnt from.",
            metavar="DATA",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    folds: Annotated[
        int | None, typer.Option("--folds", min=2, help="Parts of the stratified cross-validation; 10 if not given.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to write the figures to, as SVG.", metavar="DIR")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Page of all this to write.", metavar="FILE")] = None,
    criterion: options.CriterionOption = None,
    effort: options.EffortOption = None,
    discrete: options.Discrete = None,
    continuous: options.Continuous = None,
    ignore: options.Ignore = None,
    discretize: options.Discretize = False,
    informative_missing: options.InformativeMissing = False,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    missing: options.Missing = None,
    allow_missing_columns: options.AllowMissingColumns = False,
    separator: options.Separator = None,
    encoding: options.Encoding = None,
    decimal: options.Decimal = ".",
    json: options.Json = False,
) -> None:
    """Judge models on rows that they have not seen: by cross-validation of a table, or a saved model on a test file.

    `evaluate DATA --target C` compares NB, FM, FAN and FAN CV, the average of several models: every row is predicted
    by models that were learnt without it. `evaluate MODEL ROWS --target C` tests one model, with its confusion matrix
    and what each class gets. Nothing is written unless --out or --html asks for it.
    """
    _check_outputs(out, html, source, rows, train)
    models = [options.model_named(name) for name in options.names(model)]
    from fanbayes.commands.rows import Reading

    reading = Reading(missing, separator, encoding, decimal)
    peers = _peers(against)
    of_folds = {
        "--model": model,
        "--folds": folds,
        "--criterion": criterion,
        "--effort": effort,
        "--discrete": discrete,
        "--continuous": continuous,
        "--ignore": ignore,
        "--discretize": discretize,
        "--informative-missing": informative_missing,
    }
    of_models = {"--train": train, "--allow-missing-columns": allow_missing_columns}
    if _is_model(source, rows, target):
        _require_none(of_folds, f"{source} is a model that has been learnt")
        assert rows is not None
        result = _test(source, rows, target, reading, allow_missing_columns, peers, train, seed, jobs or -1)
    else:
        _require_none(of_models, f"{source} is a table, on which models are learnt anew")
        columns = {"discrete": discrete, "continuous": continuous, "ignore": ignore}
        settings = {
            "criterion": criterion,
            "effort": effort,
            "discretize": "mdlp" if discretize else None,
            "missing": "informative" if informative_missing else None,
            "random_state": seed,
            "n_jobs": jobs or -1,
        }
        models = [*_ALWAYS, *models]
        result = _cross_validate(source, target, reading, columns, models, settings, peers, folds or _DEFAULT_FOLDS)
    tell(result, out, html, json)


def _check_outputs(out: Path | None, html: Path | None, *inputs: Path | None) -> None:
    if html is not None:
        require_target(html, *inputs)
    if out is not None and out.exists() and not out.is_dir():
        raise WrongUse(f"{out} is a file: --out names a folder.")
    if out is not None and out.is_dir():
        for name in FIGURES.values():
            require_target(out / name, *inputs)


def _is_model(source: Path, rows: Path | None, target: str) -> bool:
    """Whether a model is to be tested; refused if what is given does not fit together."""
    from fanbayes.files.container import is_model_file

    if not is_model_file(source):
        if rows is None:
            return False
        raise WrongUse(f"{source} is no model to test on {rows}: give a MODEL and its test rows, or one table alone.")
    if rows is None:
        wanted = f"fanbayes evaluate {source} test.csv --target {options.pasted([target])}"
        raise WrongUse(f"{source} is a model: name the table to test it on as well, as in {wanted}.")
    return True


def _require_none(given: Mapping[str, Any], reason: str) -> None:
    for option, value in given.items():
        if value:
            raise WrongUse(f"{option} has no meaning here: {reason}; leave it out.")


def _peers(against: list[str] | None) -> list[str]:
    from fanbayes.evaluation.peers import PEERS

    names = options.names(against)
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise WrongUse(f"--against {unknown[0]}: there are {', '.join(PEERS)}.")
    return names


def _chosen_by(classifiers: Mapping[str, Any]) -> str:
    """By what numbers of components are chosen, where they are."""
    of: dict[str, list[str]] = {}
    for title, clf in classifiers.items():
        if {"criterion", "n_components"} <= clf.get_params().keys():
            of.setdefault(clf.criterion.upper(), []).append(title)
    scores = list(of) if len(of) < 2 else [f"{score} ({', '.join(titles)})" for score, titles in of.items()]
    return f", components chosen by {' and '.join(scores)}" if scores else ""


def _about_peers(peers: Sequence[str]) -> list[str]:
    from fanbayes.evaluation.peers import PEERS

    return [f"{title}: {settings}." for title, settings in (PEERS[name] for name in peers)]


# ---------------------------------------------------------------- the two ways


def _cross_validate(
    source: Path,
    target: str,
    reading: Reading,
    columns: Mapping[str, list[str] | None],
    models: Sequence[Model],
    settings: Mapping[str, Any],
    peers: Sequence[str],
    folds: int,
) -> Evaluation:
    """Predictions of a table's rows by models learnt without them."""
    from fanbayes.commands.models import classifier
    from fanbayes.commands.rows import read_labelled
    from fanbayes.commands.traps import note_training_traps
    from fanbayes.evaluation.comparison import MEASURES, cross_validate, differences
    from fanbayes.evaluation.peers import PEERS, class_shares, peer

    dataset = read_labelled(source, target, reading, **columns)
    informed = settings["missing"] == "informative"
    note_training_traps(dataset, settings["missing"] or "ignorable")
    n_labelled = int(dataset.labelled.sum())
    if n_labelled < folds:
        raise WrongUse(f"--folds {folds}: {source} has {n_labelled} labelled rows only.")
    seed = settings["random_state"]
    classifiers: dict[str, Any] = {one.title: classifier(one, **settings) for one in dict.fromkeys(models)}
    is_discrete = [kind == "discrete" for kind in dataset.kinds.values()]
    classifiers |= {PEERS[name][0]: peer(name, is_discrete, seed, settings["n_jobs"]) for name in peers}
    classifiers[SHARES] = class_shares()
    with warnings_as_notes(), _progress(len(classifiers) * folds) as report:
        found = cross_validate(classifiers, dataset, folds, seed, report)
    shares = found.pop(SHARES)
    of_shares = [f"{MEASURES[key]} {e.value:.4f}" for key, e in shares.estimates().items() if e and key in _OF_SHARES]
    discretised = ", continuous columns discretised" if settings["discretize"] else ""
    about = [
        f"{len(dataset.y)} rows, {len(dataset.kinds)} features, classes {shortened(dataset.classes, 12)}.",
        f"Stratified {folds}-fold cross-validation{_chosen_by(classifiers)}, seed {seed}{discretised}.",
        *([f"Whether a value is missing counts as well{', but not for others' if peers else ''}."] if informed else []),
        f"Class shares alone, whatever the row: {', '.join(of_shares)}.",
        *_about_peers(peers),
    ]
    summary = {
        "data": dataset.name,
        "rows": len(dataset.y),
        "classes": dataset.classes,
        "folds": folds,
        "discretize": settings["discretize"] is not None,
        "informative_missing": informed,
        "class_shares": in_json(shares),
    }
    return Evaluation(about, found, differences(found), summary)


def _test(
    path: Path,
    rows: Path,
    target: str,
    reading: Reading,
    allow_missing_columns: bool,
    peers: Sequence[str],
    train: Path | None,
    seed: int,
    n_jobs: int,
) -> Evaluation:
    """Predictions of rows by a model, and by others that learn from the same table."""
    import numpy as np

    from fanbayes.commands.rows import read_labelled_for
    from fanbayes.evaluation.comparison import Predictions, differences, learnt, log_proba_of
    from fanbayes.evaluation.confusion import class_report
    from fanbayes.evaluation.peers import PEERS, peer
    from fanbayes.files.model_file import load

    if peers and train is None:
        raise WrongUse(f"--against has to learn first: give --train the table that {path} was learnt from.")
    if train is not None and not peers:
        raise WrongUse("--train is what --against learns from: name some of hgb, logistic, forest, or leave it out.")
    clf = load(path)
    X, labels = read_labelled_for(clf, rows, target, reading, allow_missing_columns=allow_missing_columns)
    classes = clf.classes_.tolist()
    with warnings_as_notes():
        found = {path.name: Predictions(labels, clf.predict_log_proba(X), classes)}
        if train is not None:
            known, y = read_labelled_for(clf, train, target, reading)
            is_discrete = [column.kind == "discrete" for column in clf.schema_.columns]
            for name in peers:
                other = learnt(peer(name, is_discrete, seed, n_jobs), known, y)
                found[PEERS[name][0]] = Predictions(labels, log_proba_of(other, X, classes), classes)
        shares = np.tile(np.log(clf.class_prior_), (len(labels), 1))
        found[SHARES] = Predictions(labels, shares, classes)
    unknown = [str(label) for label in dict.fromkeys(labels.tolist()) if label not in classes]
    if unknown:
        note(f"classes of {rows} that the model does not know, and never predicts: {shortened(unknown, 10)}.")
    report = class_report(labels, found[path.name].log_proba, classes=classes)
    about = [
        f"{path.name}: {type(clf).__name__}, classes {shortened([*map(str, classes)], 12)}.",
        f"Tested on {len(labels)} rows of {rows}; {SHARES}: the model's p(c), whatever the row.",
        *_about_peers(peers),
    ]
    summary = {"model": str(path), "data": rows.stem, "rows": len(labels), "classes": classes, "report": report}
    return Evaluation(about, found, differences(found, path.name), summary)


@contextmanager
def _progress(n_steps: int) -> Iterator[Callable[[str, int], None]]:
    """A bar on stderr, if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=n_steps)
        begun = 0

        def report(name: str, fold: int) -> None:
            nonlocal begun
            bar.update(task, completed=begun, description=f"{name}, fold {fold + 1}")
            begun += 1

        yield report
