"""Commands that are stopped, that find the disk full, or that nobody listens to."""

from __future__ import annotations

import functools
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fanbayes import load
from fanbayes.study.records import TIMES, key_of, read_study
from fuzz.processes import Ended, run
from fuzz.verdict import require


@dataclass(frozen=True)
class Command:
    """A command that writes one file or folder, or only to the screen.

    Attributes
    ----------
    arguments : words, of which ``{here}`` is the folder to write to and ``{data}`` that of the input
    target : name of what it writes, None for nothing
    content : what is written, in a form that is the same for every run
    """

    arguments: tuple[str, ...]
    target: str | None
    content: Callable[[Path], Any]
    resumes: bool = False

    def words(self, here: Path) -> list[str]:
        """Arguments for one folder."""
        return [word.format(here=here, data=data()) for word in self.arguments]


def _model(path: Path) -> Any:
    rows = pd.DataFrame({"x": [0.5, None, 2.0], "c": ["a", "b", None]})
    return load(path).predict_proba(rows).tolist()


def _page(path: Path) -> bool:
    return path.read_text("utf-8").rstrip().endswith("</html>")


def _records(path: Path) -> Any:
    _, records = read_study(path)
    return sorted((key_of(r), sorted((k, str(v)) for k, v in r.items() if k not in TIMES)) for r in records)


_FIT = ("fit", "{data}/train.csv", "--target", "class", "-o", "{here}/model.fan", "--jobs", "2")
_STUDY = ("study", "real", "--suite", "{data}/suite", "--folds", "2", "--jobs", "1", "--out", "{here}/study")
COMMANDS = (
    Command((*_FIT, "--model", "nb"), "model.fan", _model),
    Command((*_FIT, "--model", "fan", "--components", "2"), "model.fan", _model),
    Command(("predict", "{data}/model.fan", "{data}/rows.csv", "-o", "{here}/out.csv"), "out.csv", Path.read_bytes),
    Command(("predict", "{data}/model.fan", "{data}/rows.csv", "-o", "{here}/o.json"), "o.json", Path.read_bytes),
    Command(("predict", "{data}/model.fan", "{data}/rows.csv"), None, Path.read_bytes),
    Command(("explain", "{data}/model.fan", "{data}/rows.csv"), None, Path.read_bytes),
    Command(("show", "{data}/model.fan"), None, Path.read_bytes),
    Command(("study", "report", "{data}/study", "--page", "{here}/page.html"), "page.html", _page),
    Command(_STUDY, "study", _records, resumes=True),
)


@functools.cache
def data() -> Path:
    """Make the folder of everything that commands read."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-data-"))
    rng = np.random.default_rng(0)

    def write(path: Path, n: int) -> None:
        label = rng.integers(0, 2, n)
        x, c = rng.normal(label), rng.integers(0, 3, n)
        rows = [f"{number:.3f},{'ab '[k].strip()},{'uv'[y]}" for number, k, y in zip(x, c, label)]
        path.write_text("\n".join(["x,c,class", *rows, ""]))

    write(folder / "train.csv", 60)
    write(folder / "rows.csv", 300)
    suite = folder / "suite"
    suite.mkdir()
    write(suite / "small.csv", 24)
    features = [{"name": "x", "kind": "continuous"}, {"name": "c", "kind": "discrete"}]
    (suite / "manifest.json").write_text(
        json.dumps({"datasets": [{"name": "small", "file": "small.csv", "features": features}]})
    )
    for command in (COMMANDS[1], COMMANDS[-1]):
        ended = run([w.format(here=folder, data=folder) for w in command.arguments], folder)
        require(ended.code == 0, f"the campaign's own data could not be made: {ended.err}")
    return folder


@functools.cache
def expected(command: Command) -> tuple[Any, bytes]:
    """What a command writes, and what it prints, if nothing disturbs it."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        here = Path(folder, "here")
        here.mkdir()
        ended = run(command.words(here), Path(folder))
        require(ended.code == 0, f"it fails undisturbed: {ended.err}")
        content = None if command.target is None else command.content(here / command.target)
    return content, ended.out


def prepare() -> None:
    """Make everything that cases compare with."""
    for command in COMMANDS:
        expected(command)


# ---------------------------------------------------------------- cases


def try_signal(rng: np.random.Generator, folder: Path) -> None:
    """Stop a command at any moment: the file is the old or the new one, and the same command then does its work."""
    command, here, old = _scene(rng, folder)
    sent = signal.Signals(rng.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))
    fresh = sent != signal.SIGINT and rng.random() < 0.05
    moment = rng.uniform(0, 1.5) if fresh else rng.uniform(0, 0.3) ** 1.5

    def during(pid: int) -> None:
        time.sleep(moment)
        os.kill(pid, sent)

    ended = run(command.words(here), folder, fresh=fresh, during=during)
    ended.require_manners(sent)
    _check(command, here, old, ended)
    _check_again(command, here, folder)


def try_full_disk(rng: np.random.Generator, folder: Path) -> None:
    """Run out of room: the file is the old one, the error names what could not be written."""
    command, here, old = _scene(rng, folder, lambda c: c.target is not None)
    size = int(rng.integers(0, 12_000) if rng.random() < 0.8 else rng.integers(0, 60_000))
    limits = {}
    with _small_disk(here, size, rng) as mounted:
        if not mounted:
            limits = {resource.RLIMIT_FSIZE: size}
        ended = run(command.words(here), folder, limits=limits)
        ended.require_manners()
        _check(command, here, old, ended)
        if ended.code:
            [sentence] = ended.sentences
            require(str(here) in sentence, f"the error does not name the file: {sentence[:200]}")
    if not mounted:
        _check_again(command, here, folder)


def try_pipe(rng: np.random.Generator, folder: Path) -> None:
    """Write to nobody: a reader that goes away, a stream that is closed or full; files are written all the same."""
    command, here, _ = _scene(rng, folder)
    streams: tuple[int, ...] = ()
    what = rng.choice(["reader", "reader", "reader", "closed", "full"])
    if what == "closed":
        streams = tuple(k for k in range(3) if rng.random() < 0.5)
        ended = run(command.words(here), folder, fresh=True, closed=streams)
    elif what == "full":
        out = os.open("/dev/full", os.O_WRONLY)
        ended = run(command.words(here), folder, fresh=rng.random() < 0.1, stdout=out)
        os.close(out)
    else:
        ours, theirs = os.pipe()
        taken = int(rng.choice([0, 1, 100]))

        def during(pid: int) -> None:
            os.close(theirs)
            if taken:
                os.read(ours, taken)
            os.close(ours)

        ended = run(command.words(here), folder, fresh=rng.random() < 0.1, stdout=theirs, during=during)
    if what == "reader":
        ended.require_manners(signal.SIGPIPE)
    elif 2 not in streams:
        ended.require_manners()
    if command.target is not None:
        require(command.content(here / command.target) == expected(command)[0], "the file was not written")
    _check_names(command, here)


def _scene(
    rng: np.random.Generator, folder: Path, wanted: Callable[[Command], bool] = lambda c: True
) -> tuple[Command, Path, Any]:
    """Pick a command and make a folder to write to, in which the target may exist already."""
    chosen = [command for command in COMMANDS if wanted(command)]
    weights = np.array([0.4 if command.resumes else 1.0 for command in chosen])
    command = chosen[rng.choice(len(chosen), p=weights / weights.sum())]
    here = folder / "here"
    here.mkdir()
    old = None
    if command.target is not None and not command.resumes and rng.random() < 0.5:
        old = b"old"
        (here / command.target).write_bytes(old)
    return command, here, old


def _check(command: Command, here: Path, old: bytes | None, ended: Ended) -> None:
    """Require the old content or the new one, the new one if all went well, and nothing else in the folder."""
    content, printed = expected(command)
    if command.target is None:
        require(ended.code != 0 or ended.out == printed, "it printed something else, and said all was well")
        require(printed.startswith(ended.out) or ended.code == 0, "it printed something else")
        return
    target = here / command.target
    if command.resumes:
        if ended.code == 0:
            require(command.content(target) == content, "records differ")
        return
    if ended.code == 0 or not (target.exists() and target.read_bytes() == old):
        require(target.exists() or (ended.code and old is None), "the file is gone")
        if target.exists():
            require(_is_new(command, target, content), f"a partial file of {target.stat().st_size} bytes")
    if ended.code != -signal.SIGKILL:
        _check_names(command, here)


def _is_new(command: Command, target: Path, content: Any) -> bool:
    try:
        return bool(command.content(target) == content)
    except Exception:
        return False


def _check_names(command: Command, here: Path) -> None:
    """Require that nothing but the target is left."""
    left = [path.name for path in here.iterdir() if path.name != command.target]
    if command.resumes and (here / "study").is_dir():
        left += [p.name for p in (here / "study").iterdir() if p.name not in ("study.json", "records.jsonl")]
    require(not left, f"files were left: {left}")


def _check_again(command: Command, here: Path, folder: Path) -> None:
    """Run the command undisturbed: it does all of its work, and clears away what was left."""
    ended = run(command.words(here), folder)
    require(ended.code == 0, f"the same command failed afterwards: {ended.err[-200:]!r}")
    _check(command, here, None, ended)
    _check_names(command, here)


@contextmanager
def _small_disk(here: Path, size: int, rng: np.random.Generator) -> Iterator[bool]:
    """Make a disk of about so many bytes of a folder, where that is allowed; else nothing."""
    pages = max(2, size // 4096)
    able = rng.random() < 0.5 and os.geteuid() == 0 and shutil.which("mount") is not None
    content = {path.name: path.read_bytes() for path in here.iterdir()}
    mount = ["mount", "-t", "tmpfs", "-o", f"size={4 * pages}k", "fuzz", str(here)]
    able = able and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        if able:
            for name, old in content.items():
                (here / name).write_bytes(old)
        yield able
    finally:
        if able:
            subprocess.run(["umount", str(here)], check=True)
