"""The campaign of hostile input: that it notices what it is there to notice."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from fuzz import campaign, kinds, processes, report, table_files, verdict

from fanbayes import NBClassifier

# Newer Pythons warn of a fork beside threads; these children call nothing that a thread may hold.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
COLUMN = np.array([["a"], [1], [None]], dtype=object)


def outcome_of(attempt, **limits):
    kind = campaign.Kind("toy", "a toy", attempt, goal=1, **limits)
    [first, second] = campaign.run(kind, range(7, 9))
    assert (first.case, second.case) == (7, 8)
    assert first == campaign.Result(7, second.outcome, second.reason)  # and the campaign went on
    return first.outcome, first.reason


def refuse(rng, folder):
    verdict.answer(lambda: NBClassifier().fit(COLUMN, [0, 1, 0]), ["x0"])


def crash(rng, folder):
    os.kill(os.getpid(), signal.SIGKILL)


def hang(rng, folder):
    time.sleep(60)


def grow(rng, folder):
    bytearray(64 << 20)


def divide(rng, folder):
    np.zeros(1) / np.zeros(1)


def test_what_a_case_comes_to():
    assert outcome_of(lambda rng, folder: None) == ("answered", "")
    assert outcome_of(refuse)[0] == "refused"
    assert outcome_of(crash) == ("failed", "it crashed: exit code -9")
    assert outcome_of(hang, seconds=0.2)[1].startswith("it hung")
    assert outcome_of(grow, memory=8 << 20)[1] == "it took 64 MB"
    assert "RuntimeWarning: invalid value" in outcome_of(divide)[1]


def test_a_program_finds_its_signals_as_from_a_terminal(tmp_path, monkeypatch):
    """Whatever the campaign was started with: `nohup`, or in the background."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    monkeypatch.setattr(processes.cli, "main", lambda: print(*map(signal.getsignal, numbers), sep="\n"))
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        ended = processes.run([], tmp_path)
    finally:
        for number, handler in zip(numbers, before):
            signal.signal(number, handler)
    assert [signal.getsignal(number) for number in numbers] == before
    usual = (signal.default_int_handler, signal.SIG_DFL, signal.SIG_DFL)
    assert ended.out.decode().splitlines() == [str(handler) for handler in usual]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


def test_a_case_is_its_number(tmp_path):
    drawn = []
    kind = campaign.Kind("toy", "a toy", lambda rng, folder: drawn.append(rng.random()), goal=1)
    for case in (1, 2, 1):
        campaign.try_case(kind, case, tmp_path)
    assert drawn[0] == drawn[2] != drawn[1]


@pytest.mark.parametrize(
    ("call", "flaw"),
    [
        (lambda: NBClassifier().fit(COLUMN, [0, 1, 0]), None),
        (lambda: NBClassifier().fit([1.0, 2.0], [0, 1]), None),  # scikit-learn's words
        (lambda: Path("nowhere/x0").read_bytes(), None),
        (lambda: int("x0 is no number of mine"), "an error that nobody wrote"),
        (lambda: np.zeros(3)[4], "an error of the wrong type"),
        (lambda: NBClassifier(alpha=-1).fit(COLUMN, [0, 1, 0]), "an error that does not say what is at fault"),
    ],
)
def test_clear_sentences(call, flaw):
    with pytest.raises(Exception) as caught:
        call()
    assert verdict.flaw_of(caught.value, ["x0"]) == flaw


def test_a_few_cases_of_every_kind(tmp_path):
    """In a process of its own: cases fork, and set limits."""
    command = [sys.executable, "-m", "fuzz", "--share", "0.002", "--record", str(tmp_path / "counts")]
    done = subprocess.run(command, cwd=report.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tried = {name: counts["tried"] for name, counts in json.loads((tmp_path / "counts").read_text()).items()}
    assert tried == {name: math.ceil(0.002 * kind.goal) for name, kind in kinds.KINDS.items()}


def test_what_is_said_is_what_was_counted():
    """`make pages` writes it anew."""
    for path, text in report.texts().items():
        assert path.read_text("utf-8") == text


def test_the_files_that_others_are_made_of_are_read(tmp_path):
    table_files.read_seeds(tmp_path)
