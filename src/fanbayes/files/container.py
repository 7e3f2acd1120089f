"""Header and arrays in one safetensors file, sealed by a digest (docs/model-file.md).

Nothing is allocated before the size of a file has been checked, and nothing of it is run.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

import fanbayes
from fanbayes.data.state import Arrays, State, entry, not_finite, refuse, require

Path = str | os.PathLike[str]

FORMAT = 2
MOST_HEADER_BYTES = 1 << 25

_KEY = "fanbayes"
_NO_DIGEST = "0" * 64


def pack(header: dict[str, Any], arrays: Arrays) -> bytes:
    """File of a header and arrays: the digest is that of the file with zeros in its place."""
    text = json.dumps({"format": FORMAT, "library": fanbayes.__version__, "sha256": _NO_DIGEST, **header})
    data = safetensors.numpy.save({k: np.ascontiguousarray(a) for k, a in arrays.items()}, {_KEY: text})
    require(_header_length(data) <= MOST_HEADER_BYTES, "its header is too large: it has too many categories")
    return data.replace(_NO_DIGEST.encode(), hashlib.sha256(data).hexdigest().encode(), 1)


def unpack(data: bytes) -> State:
    """Header and arrays of what `pack` made."""
    return _unpack(_parse(data[8 : 8 + _header_length(data)]), data)


def is_model_file(path: Path) -> bool:
    """Whether a file begins as `pack` begins one; text never does."""
    with open(path, "rb") as file:
        start = file.read(9)
    return start[8:] == b"{" and _header_length(start) <= MOST_HEADER_BYTES


def read(path: Path) -> State:
    """Header and arrays of a file."""
    path = os.fspath(path)  # a number would be taken for an open file
    require(stat.S_ISREG(os.stat(path).st_mode), "it is not a regular file")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(9)
        require(len(start) == 9 and start[8:] == b"{", "it is no fanbayes model file")
        length = _header_length(start)
        if length > MOST_HEADER_BYTES:
            refuse(f"its header claims {length} bytes, more than the {MOST_HEADER_BYTES} that are allowed")
        require(8 + length <= size, "it is truncated")
        head = start + file.read(length - 1)
        outer = _parse(head[8:])
        end = _end_of_arrays(outer)
        require(8 + length + end == size, "it is truncated, or something was appended")
        data = head + file.read(end)
        require(len(data) == size, "it is truncated")
    return _unpack(outer, data)


def _header_length(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")


def _unpack(outer: dict[str, Any], data: bytes) -> State:
    """Header and arrays of a whole file, given its safetensors header."""
    metadata = outer.get("__metadata__")
    text = metadata.get(_KEY) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        refuse("it is no fanbayes model file")
    header = _parse(text)
    version = entry(header, "format", int)
    require(0 < version < 1000, "it has a format that does not exist")
    if version > FORMAT:
        library = entry(header, "library", str)[:20]
        refuse(f"it has format {version}, of fanbayes {library!r}, and this version reads {FORMAT}: upgrade fanbayes")
    require(version == FORMAT, f"it has format {version}, and this version reads {FORMAT}: fit and save it again")
    digest = entry(header, "sha256", str).encode("ascii", "replace")
    require(len(digest) == len(_NO_DIGEST), "it has no digest")
    unsealed = data.replace(digest, _NO_DIGEST.encode(), 1)
    require(hashlib.sha256(unsealed).hexdigest().encode() == digest, "it was altered after it was written")
    try:
        return header, safetensors.numpy.load(data)
    except (SafetensorError, KeyError, ValueError, OverflowError):
        refuse("its arrays are damaged")


def _parse(text: str | bytes) -> dict[str, Any]:
    """A JSON object, all of whose text is Unicode."""
    try:
        values = json.loads(text, object_hook=not_finite, parse_constant=refuse)
        json.dumps(values, ensure_ascii=False).encode()  # JSON can say half of a surrogate pair; few libraries hold it
    except UnicodeEncodeError as error:
        around = error.object[max(0, error.start - 10) : error.end + 10]
        refuse(f"it holds text that is not valid Unicode, near {around!r:.60}; correct it, and save the model again")
    except (ValueError, RecursionError):  # also of UTF-8, and of `refuse`
        refuse("its header is not valid JSON")
    if not isinstance(values, dict):
        refuse("its header is not a JSON object")
    return values


def _end_of_arrays(outer: dict[str, Any]) -> int:
    ends = [0]
    for name, values in outer.items():
        if name != "__metadata__":
            offsets = entry(values, "data_offsets", list)
            require(len(offsets) == 2 and all(type(o) is int for o in offsets), "its arrays are damaged")
            ends.append(offsets[1])
    return max(ends)
