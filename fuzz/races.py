"""Files that several write to, and files that change while they are read."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fanbayes import NBClassifier, load, save
from fanbayes.files.dataset import read_table
from fuzz import commands
from fuzz.processes import run, wait_for
from fuzz.verdict import Fault, Refused, answer, require

ROWS = np.array([[0.5, 1.0], [np.nan, 3.0]])


@functools.cache
def writers() -> tuple[Any, ...]:
    """Make models that can be told apart by what they predict."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 50)
    return tuple(NBClassifier(alpha=a).fit(rng.normal(y[:, None], a, (50, 2)), y) for a in (1.0, 2.0, 3.0))


def try_writers(rng: np.random.Generator, folder: Path) -> None:
    """Save several models to one file at once, and read it meanwhile: it is always one of them, and whole."""
    if rng.random() < 0.1:
        _try_two_studies(folder)
        return
    path = folder / "model.fan"
    known = [clf.predict_proba(ROWS).tobytes() for clf in writers()]
    save(writers()[0], path)
    n = int(rng.integers(2, 4))
    pauses = rng.uniform(0, 0.002, (n, 5))
    children = [child(lambda k=k: _save_often(writers()[k], path, pauses[k])) for k in range(n)]
    try:
        for _ in range(10):
            require(load(path).predict_proba(ROWS).tobytes() in known, "a model that nobody saved")
    finally:
        codes = [wait_for(pid) for pid in children]
    require(not any(codes), "a writer failed")
    require(load(path).predict_proba(ROWS).tobytes() in known, "a model that nobody saved")
    require([p.name for p in folder.iterdir()] == ["model.fan"], "a temporary file was left")


def _save_often(clf: Any, path: Path, pauses: np.ndarray) -> None:
    for pause in pauses:
        save(clf, path)
        time.sleep(pause)


def _try_two_studies(folder: Path) -> None:
    """Run a study twice at once in one folder: one of them does it, the other says so or finds it done."""
    command = commands.COMMANDS[-1]
    words = command.words(folder)
    other: list[Any] = []
    (folder / "a").mkdir()
    first = run(words, folder, during=lambda pid: other.append(run(words, folder / "a")))
    for ended in (first, *other):
        ended.require_manners()
    require(0 in (first.code, other[0].code), "neither of two studies was run")
    require(command.content(folder / "study") == commands.expected(command)[0], "records differ")


# ---------------------------------------------------------------- input that changes


def try_changing_input(rng: np.random.Generator, folder: Path) -> None:
    """Change a file while it is read: an answer that belongs to one of its contents, or a sentence."""
    (_change_model if rng.random() < 0.5 else _change_table)(rng, folder)


def _change_model(rng: np.random.Generator, folder: Path) -> None:
    path = folder / "model.fan"
    files, known = [], []
    for clf in writers():
        save(clf, path)
        files.append(path.read_bytes())
        known.append(clf.predict_proba(ROWS).tobytes())
    pid = child(lambda: _overwrite(path, files, rng))
    refused = 0
    try:
        for _ in range(20):
            try:
                clf = answer(lambda: load(path), [str(path)])
            except Refused:
                refused += 1
                continue
            require(clf.predict_proba(ROWS).tobytes() in known, "a model that was never in the file")
    finally:
        require(wait_for(pid) == 0, "the writer failed")
    if refused == 20:
        raise Refused("every time")


def _change_table(rng: np.random.Generator, folder: Path) -> None:
    path = folder / "rows.csv"
    n = int(rng.choice([500, 3000]))
    lines = [f"{k % 7},{'ab'[k % 2]},{'uv'[k % 3 > 0]}" for k in range(n)]
    files = ["\n".join(["x,c,class", *lines[:m], ""]).encode() for m in (n, n // 2, n)]
    files[2] = files[2].replace(b"x,c", b"c,x") if rng.random() < 0.5 else b"\xff" + files[2]
    path.write_bytes(files[0])
    pid = child(lambda: _overwrite(path, files, rng))
    try:
        for _ in range(5):
            try:
                dataset = answer(lambda: read_table(path, target="class"), [str(path)])
            except Refused:
                continue
            require(len(dataset.X) == len(dataset.y) <= n, "rows that were never in the file")
            require(set(dataset.classes) <= {"u", "v"}, "classes that were never in the file")
    finally:
        require(wait_for(pid) == 0, "the writer failed")


def _overwrite(path: Path, files: list[bytes], rng: np.random.Generator) -> None:
    """Write other contents over a file, in place and in pieces, cut it short, or put another in its place."""
    for _ in range(8):
        data = files[rng.integers(len(files))]
        cut = int(rng.integers(len(data)))
        how = rng.integers(3)
        if how == 0:
            with path.open("r+b") as file:
                file.write(data[:cut])
                file.flush()
                time.sleep(rng.uniform(0, 0.002))
                file.write(data[cut:])
                file.truncate()
        elif how == 1:
            os.truncate(path, cut)
            time.sleep(rng.uniform(0, 0.001))
            path.write_bytes(data)
        else:
            other = path.with_suffix(".other")
            other.write_bytes(data)
            os.replace(other, path)
        time.sleep(rng.uniform(0, 0.003))


def child(work: Callable[[], object]) -> int:
    """Do something in a forked process, which ends with code 0 if nothing was raised; its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except Fault as fault:
        os.write(2, f"{fault}\n".encode())
    finally:
        os._exit(code)
