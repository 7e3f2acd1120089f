"""The table reader against files that chance has written: a dataset or a `DatasetError`, nothing else."""

import gzip
import io
import lzma
import tempfile
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fanbayes.study.tables import Dataset, DatasetError, read_table

CSV = 'a,b,"c d",class\n1,x,0.5,yes\n2,?,1e3,no\n-3,"x,y",,yes\n4,ü,7,\n'.encode()
ARFF = (
    b"% comment\n@relation r\n@attribute a numeric\n@attribute 'b c' {x, 'y z', \"q\"}\n"
    b"@attribute d string\n@attribute class {yes,no}\n@data\n1,x,'a, b',yes\n?,'y z',?,no\n2.5,\"q\",t,yes\n"
)


def parquet():
    file = io.BytesIO()
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "b": ["x", "y", None], "class": pd.Categorical(["u", "v", "u"])})
    frame.to_parquet(file)
    return file.getvalue()


SEEDS = {
    "t.csv": CSV,
    "t.tsv": CSV.replace(b",", b"\t"),
    "t.txt": CSV.decode().encode("utf-16"),
    "t.arff": ARFF,
    "t.csv.gz": gzip.compress(CSV * 5, mtime=0),
    "t.arff.xz": lzma.compress(ARFF),
    "t.parquet": parquet(),
}
PIECES = [
    b"",
    b",",
    b'"',
    b"'",
    b"\n",
    b"\r",
    b"\r\n",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"?",
    b"nan",
    b"1e999",
    b"{",
    b"}",
]
PIECES += [b"@data", b"@attribute", b"\xc3", b"1_0", b"a,a", b";", b"\t" * 50, b"9" * 400, b"x" * 140_000]

pieces = st.sampled_from(PIECES) | st.binary(max_size=8)
edits = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), pieces), max_size=6)
names = st.sampled_from(["a", "b", "c d", "b c", "class", "", "nothing"])
options = st.fixed_dictionaries(
    {},
    optional={
        "target": names,
        "discrete": st.lists(names, max_size=2),
        "continuous": st.lists(names, max_size=2),
        "ignore": st.lists(names, max_size=2),
        "split": names,
        "missing": st.lists(st.text(max_size=3), max_size=3),
        "separator": st.text(max_size=2),
        "encoding": st.sampled_from(["utf-8", "latin-1", "utf-16", "ascii", "idna", "hex", "nonsense"]),
    },
)
files = st.sampled_from(sorted(SEEDS)).flatmap(
    lambda name: st.tuples(st.just(name), st.just(SEEDS[name]) | st.binary(max_size=300), edits)
)


def mutated(data, changes):
    for place, length, piece in changes:
        start = round(place * len(data))
        data = data[:start] + piece + data[start + length :]
    return data


def check(file, given_options):
    name, data, changes = file
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(mutated(data, changes))
        try:
            found = read_table(path, **given_options)
        except DatasetError:
            return
    assert isinstance(found, Dataset)
    assert len(found.X) == len(found.y) > 0
    assert list(found.kinds) == list(found.X.columns)


ANY = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}


@settings(max_examples=200, **ANY)
@given(files, options)
@example(("t.csv", CSV, []), {"target": "class"})
@example(("t.arff", ARFF, []), {"target": "class"})
def test_the_reader_has_one_kind_of_error(file, given_options):
    check(file, given_options)


@pytest.mark.slow
@settings(max_examples=10_000, **ANY)
@given(files, options)
def test_the_reader_has_one_kind_of_error_at_length(file, given_options):
    check(file, given_options)


def test_the_seeds_are_read():
    for name, data in SEEDS.items():
        check((name, data, []), {"target": "class"})
