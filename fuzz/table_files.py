"""Files of rows that chance has written: a dataset, or a sentence that names the file."""

from __future__ import annotations

import functools
import gzip
import io
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fanbayes.files.dataset import read_table
from fuzz.verdict import Refused, answer, require

CSV = 'a,b,"c d",class\n1,x,0.5,yes\n2,?,1e3,no\n-3,"x,y",,yes\n4,ü,7,\n'.encode()
ARFF = (
    b"% comment\n@relation r\n@attribute a numeric\n@attribute 'b c' {x, 'y z', \"q\"}\n"
    b"@attribute d string\n@attribute class {yes,no}\n@data\n1,x,'a, b',yes\n?,'y z',?,no\n2.5,\"q\",t,yes\n"
)
PIECES = [b"", b",", b'"', b"'", b"\n", b"\r", b"\r\n", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"?", b"nan", b"1e999"]
PIECES += [b"{", b"}", b"@data", b"@attribute", b"\xc3", b"1_0", b"a,a", b";", b"\t" * 50, b"9" * 400, b"x" * 140_000]
PACK = {".gz": gzip.compress, ".xz": lzma.compress}
NAMES = ["a", "b", "c d", "b c", "class", "", "nothing"]
ENCODINGS = ["utf-8", "latin-1", "utf-16", "ascii", "idna", "hex", "nonsense", "\0"]


@functools.cache
def seeds() -> dict[str, bytes]:
    """Files that are read as they are."""
    parquet = io.BytesIO()
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "b": ["x", "y", None], "class": pd.Categorical(["u", "v", "u"])})
    frame.to_parquet(parquet)
    return {
        "t.csv": CSV,
        "t.tsv": CSV.replace(b",", b"\t"),
        "t.txt": CSV.decode().encode("utf-16"),
        "t.arff": ARFF,
        "t.csv.gz": gzip.compress(CSV * 5, mtime=0),
        "t.arff.xz": lzma.compress(ARFF),
        "t.parquet": parquet.getvalue(),
    }


def attempt(rng: np.random.Generator, folder: Path) -> None:
    """Read a file with bytes replaced, removed and inserted, and with options that may not fit it."""
    name = rng.choice(sorted(seeds()))
    path = folder / name
    if path.suffix in PACK and rng.random() < 0.5:  # whole, but of changed content
        path.write_bytes(PACK[path.suffix](_changed(rng, ARFF if ".arff" in name else CSV)))
    else:
        path.write_bytes(_changed(rng, seeds()[name] if rng.random() < 0.95 else rng.bytes(rng.integers(0, 300))))
    options = _options(rng)
    said = [repr(v) for given in options.values() for v in (given if isinstance(given, list) else [given])]
    dataset = answer(lambda: read_table(path, **options), [str(path), *said])
    require(len(dataset.X) == len(dataset.y) > 0, "a dataset without rows, or with more labels than rows")
    require(list(dataset.kinds) == list(dataset.X.columns), "columns without a kind")


def _changed(rng: np.random.Generator, data: bytes) -> bytes:
    """Replace, remove and insert a few pieces."""
    for _ in range(rng.integers(0, 4)):
        start, length = int(rng.integers(len(data) + 1)), int(rng.integers(41) * rng.integers(2))
        piece = PIECES[rng.integers(len(PIECES))] if rng.random() < 0.9 else rng.bytes(rng.integers(9))
        data = data[:start] + piece + data[start + length :]
    return data


def read_seeds(folder: Path) -> None:
    """Require that the files from which others are made are themselves read."""
    for name, data in seeds().items():
        (folder / name).write_bytes(data)
        try:
            answer(lambda path=folder / name: read_table(path, target="class"), [])
        except Refused as error:
            raise AssertionError(name) from error


def _options(rng: np.random.Generator) -> dict[str, Any]:
    """Options as a user might give them, right or wrong."""
    choices = {
        "target": lambda: str(rng.choice(NAMES)),
        "discrete": lambda: rng.choice(NAMES, rng.integers(3)).tolist(),
        "continuous": lambda: rng.choice(NAMES, rng.integers(3)).tolist(),
        "ignore": lambda: rng.choice(NAMES, rng.integers(3)).tolist(),
        "split": lambda: str(rng.choice(NAMES)),
        "missing": lambda: [_text(rng) for _ in range(rng.integers(4))],
        "separator": lambda: _text(rng)[:2],
        "encoding": lambda: str(rng.choice(ENCODINGS)),
    }
    return {name: make() for name, make in choices.items() if rng.random() < 0.12}


def _text(rng: np.random.Generator) -> str:
    return "".join(map(chr, rng.integers(0, 0xD7FF if rng.random() < 0.3 else 127, rng.integers(4))))
