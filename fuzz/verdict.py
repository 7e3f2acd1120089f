"""What an answer has to be: probabilities, or one clear sentence.

An error is a *clear sentence* if all of this holds:

- it is a ValueError, TypeError or OSError, or one of fanbayes' own classes derived from them;
- a `raise` statement of fanbayes made it, or one of scikit-learn's checks of what users pass in; or it is the system's
  own word about a file;
- it is one line of at least four words and at most 600 characters (scikit-learn's words are its own: programs look
  for them);
- it names what is at fault: the column, the argument or the file.
"""

from __future__ import annotations

import dis
import errno
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import sklearn.utils
from numpy.typing import NDArray

import fanbayes

T = TypeVar("T")

MOST_CHARACTERS = 600
_OURS = str(Path(fanbayes.__file__).parent)
_CHECKS = str(Path(sklearn.utils.__file__).parent)
_RAISE = dis.opmap["RAISE_VARARGS"]
_SENTENCES = (ValueError, TypeError, OSError)
# Derived from ValueError, but never a sentence to a user.
_NEVER = (UnicodeError, np.linalg.LinAlgError)


class Fault(AssertionError):
    """Something that must not happen did."""


class Refused(Exception):
    """The case was turned down with a clear sentence, which is an answer."""


def require(condition: object, what: str) -> None:
    """Stop with a `Fault` unless the condition holds."""
    if not condition:
        raise Fault(what)


def answer(call: Callable[[], T], names: Collection[str]) -> T:
    """Result of a call that may refuse: `Refused` if it says why in a clear sentence that has one of the names."""
    try:
        return call()
    except Exception as error:
        flaw = flaw_of(error, names)
        if flaw:
            raise Fault(f"{flaw}: {brief(error)}") from error
        raise Refused(str(error)) from error


def flaw_of(error: Exception, names: Collection[str]) -> str | None:
    """Why an error is no clear sentence, or None if it is one."""
    if not isinstance(error, _SENTENCES) or isinstance(error, _NEVER):
        return "an error of the wrong type"
    author = _author(error)
    if author is None:
        return "an error that nobody wrote"
    if author == _CHECKS:
        return None
    text = str(error)
    if "\n" in text or len(text) > MOST_CHARACTERS or len(text.split()) < 4:
        return "an error that is not one sentence"
    if not any(name in text for name in names):
        return "an error that does not say what is at fault"
    return None


def _author(error: BaseException) -> str | None:
    """Folder of the code whose `raise` made the error: ours, or scikit-learn's checks; None for any other.

    What the system says of a file counts as ours.
    """
    if isinstance(error, OSError) and error.errno in errno.errorcode and error.filename is not None:
        return _OURS
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None or at.tb_frame.f_code.co_code[at.tb_lasti] != _RAISE:
        return None
    return next((f for f in (_OURS, _CHECKS) if at.tb_frame.f_code.co_filename.startswith(f)), None)


def brief(error: BaseException) -> str:
    """An error in one line, with the place it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}{place}"


def require_probabilities(proba: NDArray[Any], n_rows: int, n_classes: int) -> None:
    """Require finite probabilities of every class for every row, which sum to one."""
    require(proba.shape == (n_rows, n_classes), f"probabilities of shape {proba.shape}, not {(n_rows, n_classes)}")
    require(np.isfinite(proba).all(), "a probability that is no number")
    require((proba >= 0).all() and (np.abs(proba.sum(axis=1) - 1) < 1e-9).all(), "probabilities that do not sum to one")


def require_sums(clf: Any, rows: Any) -> None:
    """Require contributions that are numbers and add up, with the prior, to the log-odds.

    They are differences of log p(c, x): what rounding does to those is all that may be missing.
    """
    why = clf.explain(rows)
    parts = np.column_stack([why.prior, why.contributions])
    require(np.isfinite(parts).all() and np.isfinite(why.log_odds).all(), "a contribution that is no number")
    scale = 1 + np.abs(parts).sum(axis=1) + np.abs(clf.predict_log_proba(rows)).max(axis=1)
    if hasattr(clf, "predict_joint_log_proba"):
        scale += np.abs(clf.predict_joint_log_proba(rows)).max(axis=1)
    gap = np.abs(parts.sum(axis=1) - why.log_odds)
    require((gap <= 1e-6 * scale).all(), "contributions that do not add up to the log-odds")
