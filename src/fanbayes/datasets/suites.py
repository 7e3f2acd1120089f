"""Suites of datasets: those that come with the library, a folder of files, and OpenML.

A suite is a mapping from names to datasets that loads a dataset when it is asked for, so that one broken
file stops nothing but itself. The reading of single files is in `tables`, the generated data in `generators`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets

from fanbayes.datasets import generators
from fanbayes.files.dataset import (
    Dataset,
    DatasetError,
    Kind,
    from_columns,
    from_frame,
    near,
    open_bytes,
    read_table,
)

__all__ = ["RELATED", "Dataset", "DatasetError", "Kind", "Suite", "load_suite", "read_table"]

# Sets that share rows, patients, or the rule behind them, and so are not independent evidence.
RELATED: Mapping[str, tuple[str, ...]] = {
    "breast-wisconsin": ("breast_cancer", "wdbc", "wpbc"),
    "credit-japan": ("australian", "credit-a", "credit-approval"),
    "heart-cleveland": ("heart-cleveland", "heart-statlog"),
    "led": ("led7", "led24", "led24-generated"),
    "monks": ("monks-1", "monks-2", "monks-3"),
    "soybean": ("soybean", "soybean-large", "soybean-small"),
    "splice": ("dna", "splice"),
    "thyroid": (
        "ann-thyroid",
        "hypothyroid-3163",
        "sick-euthyroid-3163",
        "thyroid-allbp",
        "thyroid-allhypo",
        "thyroid-sick",
    ),
    "waveform": ("waveform-21", "waveform-40"),
}

# Names as OpenML spells them; a download whose name differs is refused.
OPENML: Mapping[str, int] = {
    "anneal": 2,
    "kr-vs-kp": 3,
    "letter": 6,
    "balance-scale": 11,
    "breast-cancer": 13,
    "breast-w": 15,
    "mushroom": 24,
    "credit-approval": 29,
    "credit-g": 31,
    "pendigits": 32,
    "segment": 36,
    "diabetes": 37,
    "sonar": 40,
    "glass": 41,
    "soybean": 42,
    "splice": 46,
    "tic-tac-toe": 50,
    "heart-statlog": 53,
    "vehicle": 54,
    "hepatitis": 55,
    "vote": 56,
    "ionosphere": 59,
    "iris": 61,
    "satimage": 182,
}


@dataclass(frozen=True)
class Suite(Mapping[str, Dataset]):
    """Datasets by name, in order, each loaded anew whenever it is asked for.

    Loading can raise `DatasetError`; a study that should go on loops over the names and catches it.

    Parameters
    ----------
    name : str
        "builtin", "openml" or the folder.
    loaders : mapping of str to callable
        How to load each dataset.
    groups : mapping of str to str
        The related group of each dataset that has one.
    """

    name: str
    loaders: Mapping[str, Callable[[], Dataset]] = field(repr=False)
    groups: Mapping[str, str] = field(repr=False)

    def __getitem__(self, name: str) -> Dataset:
        return replace(self.loaders[name](), name=name, group=self.groups.get(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.loaders)

    def __len__(self) -> int:
        return len(self.loaders)

    def __contains__(self, name: object) -> bool:
        return name in self.loaders

    def only(self, names: Iterable[str]) -> Suite:
        """Keep the named datasets, in the order given."""
        chosen = list(names)
        for name in chosen:
            if name not in self.loaders:
                raise DatasetError(f"the suite {self.name} has no dataset {name!r}; {near(name, self)}")
        return replace(self, loaders={name: self.loaders[name] for name in chosen})


def load_suite(spec: str | PathLike[str]) -> Suite:
    """Open a suite without loading any of its datasets.

    Parameters
    ----------
    spec : str or path-like
        "builtin": what needs no network, from scikit-learn and `generators`. "openml": classic sets
        downloaded from openml.org, and kept by scikit-learn. Otherwise a folder with a ``manifest.json``,
        which lists under "datasets" objects with "name", "file" and "features" (a list of "name" and "kind",
        "discrete" or "continuous"), and optionally "target" (default "class"), "donor_split" (true if a
        column "split" says train or test), "n_rows", "sha256_csv" (of the uncompressed file) and "group".
        An empty field is a missing value.

    Raises
    ------
    DatasetError
        If there is no such suite or its manifest cannot be read.
    """
    if spec == "builtin":
        return Suite("builtin", BUILTIN, _groups(BUILTIN))
    if spec == "openml":
        loaders = {name: partial(_from_openml, name, number) for name, number in OPENML.items()}
        return Suite("openml", loaders, _groups(loaders))
    folder = Path(spec)
    if not folder.is_dir():
        raise DatasetError(f"there is no suite {str(spec)!r}: give 'builtin', 'openml' or a folder of data.")
    return _from_folder(folder)


def _groups(names: Iterable[str], declared: Mapping[str, str] | None = None) -> dict[str, str]:
    known = {name: group for group, members in RELATED.items() for name in members} | dict(declared or {})
    return {name: known[name] for name in names if name in known}


def _from_folder(folder: Path) -> Suite:
    path = folder / "manifest.json"
    try:
        entries = list(json.loads(path.read_text("utf-8"))["datasets"])
    except FileNotFoundError:
        raise DatasetError(f"{folder} has no manifest.json, which lists its files and columns.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DatasetError(f"{path} is not a JSON object with a list 'datasets': {error}.") from None
    loaders: dict[str, Callable[[], Dataset]] = {}
    groups: dict[str, str] = {}
    for position, entry in enumerate(entries, start=1):
        entry = entry if isinstance(entry, dict) else {}
        name = str(entry.get("name", f"entry {position}"))
        where = f"dataset {name!r} of {path}"
        if name in loaders:
            loaders[name] = partial(_refuse, f"{where} is listed twice: rename one.")
            continue
        loaders[name] = partial(_from_entry, folder, entry, where)
        if entry.get("group"):
            groups[name] = str(entry["group"])
    return Suite(str(folder), loaders, _groups(loaders, groups))


def _refuse(sentence: str) -> Dataset:
    raise DatasetError(sentence)


def _from_entry(folder: Path, entry: Mapping[str, Any], where: str) -> Dataset:
    """Read one dataset of a folder and compare it with what the manifest says of it."""
    try:
        path = folder / entry["file"]
        kinds = {str(feature["name"]): feature["kind"] for feature in entry["features"]}
    except (KeyError, TypeError) as error:
        raise DatasetError(f"{where} is incomplete ({error}): it needs a file and named features.") from None
    for name, kind in kinds.items():
        if kind not in ("discrete", "continuous"):
            raise DatasetError(f"{where} calls {name!r} {kind!r}: a feature is 'discrete' or 'continuous'.")
    _verify(path, entry.get("sha256_csv"), where)
    dataset = read_table(
        path,
        target=entry.get("target", "class"),
        discrete=[name for name, kind in kinds.items() if kind == "discrete"],
        continuous=[name for name, kind in kinds.items() if kind == "continuous"],
        split="split" if entry.get("donor_split") else None,
        missing=[""],
    )
    extra = dataset.kinds.keys() - kinds.keys()
    if extra:
        raise DatasetError(f"{where} does not list the column {min(extra)!r} of {path.name}.")
    if entry.get("n_rows", len(dataset.y)) != len(dataset.y):
        raise DatasetError(f"{where} promises {entry['n_rows']} rows, {path.name} has {len(dataset.y)}.")
    return dataset


def _verify(path: Path, expected: str | None, where: str) -> None:
    if expected is None or not path.is_file():
        return
    digest = hashlib.sha256()
    with open_bytes(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    found = digest.hexdigest()
    if found != expected:
        raise DatasetError(
            f"{where} has the sha256 {expected[:12]}..., but {path.name} has {found[:12]}...: "
            "fetch the file again, or correct the manifest."
        )


def _from_openml(name: str, number: int) -> Dataset:
    try:
        bunch = sklearn.datasets.fetch_openml(data_id=number, as_frame=True, parser="auto")
    except ImportError:
        raise DatasetError("datasets from OpenML need pandas: pip install 'fanbayes[files]'.") from None
    except (OSError, ValueError) as error:
        raise DatasetError(
            f"cannot download {name!r} (number {number}) from openml.org: {error}; "
            "check the network, or use the suite 'builtin' or a folder."
        ) from None
    if bunch.details["name"].lower() != name:
        raise DatasetError(f"number {number} of openml.org is {bunch.details['name']!r} and not {name!r}.")
    return from_frame(bunch.frame, name=name, target=bunch.target_names[0])


def _from_sklearn(name: str) -> Dataset:
    bunch = getattr(sklearn.datasets, f"load_{name}")()
    columns = dict(zip(map(str, bunch.feature_names), np.asarray(bunch.data, np.float64).T))
    return from_columns(name, columns, np.asarray(bunch.target_names).astype(str)[bunch.target], "measured")


_SEED = 1999

BUILTIN: Mapping[str, Callable[[], Dataset]] = {
    **{name: partial(_from_sklearn, name) for name in ("iris", "wine", "breast_cancer", "digits")},
    "balance-scale": generators.balance_scale,
    "balloons": generators.balloons,
    "led7": partial(generators.led, 3200, rng=_SEED),
    "led24": partial(generators.led, 3200, irrelevant=17, rng=_SEED),
    "lenses": generators.lenses,
    "mofn-3-7-10": generators.at_least,
    "monks-1": partial(generators.monks, 1),
    "monks-2": partial(generators.monks, 2),
    "monks-3": partial(generators.monks, 3, noise=0.05, rng=_SEED),
    "multiplexer-11": generators.multiplexer,
    "parity5+5": generators.parity,
    "ringnorm": partial(generators.ringnorm, 7400, rng=_SEED),
    "threenorm": partial(generators.threenorm, 7400, rng=_SEED),
    "tic-tac-toe": generators.tic_tac_toe,
    "twonorm": partial(generators.twonorm, 7400, rng=_SEED),
    "waveform-21": partial(generators.waveform, 5000, rng=_SEED),
    "waveform-40": partial(generators.waveform, 5000, irrelevant=19, rng=_SEED),
}
