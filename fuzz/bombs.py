"""Small files that unpack into large ones: read in a process that has little memory."""

from __future__ import annotations

import bz2
import gzip
import lzma
import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from fuzz import commands
from fuzz.campaign import MEGABYTE, in_use
from fuzz.processes import run
from fuzz.verdict import Refused, require

PACK = {
    "gz": gzip.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "bz2": lambda data: bz2.compress(data, 1),
}
HEADS = {
    "csv": b"x,c,class\n",
    "arff": b"@relation r\n@attribute x numeric\n@attribute c {a,b}\n@attribute class {u,v}\n@data\n",
}
ROOM = 200 * MEGABYTE


def attempt(rng: np.random.Generator, folder: Path) -> None:
    """Give a bomb to a command: an answer, or one sentence that names the file."""
    size = int(2.0 ** rng.uniform(18, 26))
    path = _parquet(rng, folder, size) if rng.random() < 0.3 else _text(rng, folder, size)
    if rng.random() < 0.5:
        words = ["fit", str(path), "--target", "class", "-o", str(folder / "model.fan"), "--model", "nb"]
    else:
        words = ["predict", str(commands.data() / "model.fan"), str(path), "-o", str(folder / "out.csv")]
    ended = run(words, folder, limits={resource.RLIMIT_AS: in_use("VmSize") + ROOM})
    ended.require_manners()
    left = {p.name for p in folder.iterdir()} - {path.name, "stdout", "model.fan", "out.csv"}
    require(not left, f"files were left: {left}")
    if ended.code:
        [sentence] = ended.sentences
        require(str(path) in sentence, f"the error does not name the file: {sentence[:200]}")
        raise Refused(sentence)


def _text(rng: np.random.Generator, folder: Path, size: int) -> Path:
    """Make a compressed CSV file: nothing but zeros, one line, many lines, or many columns."""
    form = str(rng.choice([*HEADS]))
    head, line = HEADS[form], b"1,a,u\n2,b,v\n"
    contents = [
        lambda: bytes(size),
        lambda: head + b"0" * size,
        lambda: head + b'"' + b"a" * size,
        lambda: head + b"\n" * min(size, 1 << 21),
        lambda: head + line * (min(size, 1 << 21) // len(line)),
        lambda: b"," * min(size, 1 << 20) + b"\n",
        lambda: head + b"," * min(size, 1 << 23),
        lambda: head + line + b" " * size,
    ]
    pack = str(rng.choice([*PACK]))
    path = folder / f"bomb.{form}.{pack}"
    path.write_bytes(PACK[pack](contents[rng.integers(len(contents))]()))
    return path


def _parquet(rng: np.random.Generator, folder: Path, size: int) -> Path:
    """Make a Parquet file whose columns are one value, as often as `size` says."""
    n = size // 8
    wide = str(rng.choice(["x", "x" * 1000]))
    columns = {
        "x": pa.repeat(1.0, n),
        "c": pa.DictionaryArray.from_arrays(pa.repeat(0, n).cast(pa.int32()), [wide]),
        "class": pa.DictionaryArray.from_arrays(pa.array(np.arange(n) % 2, pa.int32()), ["u", "v"]),
    }
    path = folder / "bomb.parquet"
    pa.parquet.write_table(pa.table(columns), path, compression="zstd")
    return path
