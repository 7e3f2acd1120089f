"""Reading one file: what is accepted, what is refused, and in which words."""

import bz2
import csv
import gzip
import io
import lzma
from datetime import date, datetime
from pathlib import Path

import narwhals as nw
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fanbayes.files import columns as columns_module
from fanbayes.files import text as text_module
from fanbayes.files import text_columns as text_columns_module
from fanbayes.files.dataset import MISSING, Dataset, DatasetError, from_frame, read_table
from fanbayes.files.text import SEPARATORS

PLAIN = "size,colour,class\n1.5,red,a\n2,blue,b\n"


@pytest.fixture
def write(tmp_path):
    def save(content: str | bytes, name: str = "data.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return save


@pytest.fixture(params=["pandas", "polars"])
def library(request, monkeypatch):
    pytest.importorskip(request.param)
    monkeypatch.setattr(columns_module, "FRAMES", (request.param,))
    return request.param


def values(dataset: Dataset, name: str) -> list[object]:
    """A column with None for whatever its library calls missing."""
    column = nw.from_native(dataset.X)[name]
    return [None if null or value != value else value for value, null in zip(column, column.is_null())]


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(DatasetError) as caught:
        read_table(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message[-1] in ".?"
    assert len(message) < 600
    return message


# What is read


def test_kinds_are_inferred_and_explained(write, library):
    dataset = read_table(write(PLAIN), target="class")
    assert dataset.name == "data"
    assert dataset.kinds == {"size": "continuous", "colour": "discrete"}
    assert dataset.reasons == {
        "size": "every value is a number",
        "colour": "'red' on line 2 is not a number",
    }
    assert values(dataset, "size") == [1.5, 2.0]
    assert values(dataset, "colour") == ["red", "blue"]
    assert dataset.y.tolist() == ["a", "b"]
    assert dataset.classes == ["a", "b"]
    frame = nw.from_native(dataset.X)
    assert str(frame.implementation) == library
    assert frame["size"].dtype == nw.Float64


def test_labels_are_kept_to_the_letter(write, library):
    path = write("code,class\nNA,01\nNone,1\n01,nan\n1.0,null\n")
    dataset = read_table(path, target="class", discrete=["code"])
    assert values(dataset, "code") == ["NA", "None", "01", "1.0"]
    assert dataset.y.tolist() == ["01", "1", "nan", "null"]
    assert dataset.reasons["code"] == "declared"


def test_missing_values(write, library):
    path = write("x,k,class\n,?,a\n?,u,\n3,,b\n")
    dataset = read_table(path, target="class")
    assert values(dataset, "x") == [None, None, 3.0]
    assert values(dataset, "k") == [None, "u", None]
    assert dataset.y.tolist() == ["a", None, "b"]
    told = read_table(path, target="class", missing=["", "u"])
    assert values(told, "k") == ["?", None, None]
    assert told.kinds["x"] == "discrete"


def test_a_column_without_values(write, library):
    path = write("x,k,class\n,,a\n,,b\n")
    dataset = read_table(path, target="class", discrete=["k"])
    assert dataset.kinds == {"x": "continuous", "k": "discrete"}
    assert dataset.reasons["x"] == "no value at all"
    assert values(dataset, "x") == values(dataset, "k") == [None, None]


@pytest.mark.parametrize("word", ["inf", "-Infinity", "1e999"])
def test_infinity_among_numbers_is_refused(write, word):
    late = write("x,class\n" + "1,a\n" * 4096 + f"{word},b\n")  # alone in its block
    assert "'x' is infinite" in refusal(late, target="class")
    path = write(f"x,class\n1,a\n{word},b\n,a\n")
    message = refusal(path, target="class")
    assert all(part in message for part in (path.name, "line 3", repr(word), "'x' is infinite", "missing", "discrete"))
    assert read_table(path, target="class", discrete=["x"]).kinds == {"x": "discrete"}
    assert read_table(path, target="class", missing=["", word]).kinds == {"x": "continuous"}
    assert read_table(write(f"x,class\n1,a\n{word},b\nmany,a\n"), target="class").kinds == {"x": "discrete"}


@pytest.mark.parametrize("word", ["nan", "1_000", "0x1", "NA", "1,5"])
def test_words_that_are_not_numbers(write, word):
    path = write(f'x,class\n1,a\n"{word}",b\n')
    assert read_table(path, target="class").kinds == {"x": "discrete"}
    message = refusal(path, target="class", continuous=["x"])
    assert all(part in message for part in (path.name, "line 3", repr(word), "'x'", "discrete"))
    assert read_table(path, target="class", missing=[word]).kinds == {"x": "continuous"}


def test_without_a_target_nothing_is_labelled(write):
    dataset = read_table(write(PLAIN))
    assert dataset.y.tolist() == [None, None]
    assert list(dataset.kinds) == ["size", "colour", "class"]
    assert dataset.classes == []


def test_roles(write):
    path = write("id,split,x,class\n1,train,2,a\n2,test,3,b\n")
    dataset = read_table(path, target="class", ignore=["id"], split="split", discrete=["x"], name="mine")
    assert dataset.kinds == {"x": "discrete"}
    assert dataset.split.tolist() == ["train", "test"]
    assert dataset.name == "mine"


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_separators_line_ends_and_byte_order_marks(write, separator, end, mark):
    text = PLAIN.replace(",", separator).replace("\n", end) + end
    dataset = read_table(write(mark + text.encode()), target="class")
    assert dataset.kinds == {"size": "continuous", "colour": "discrete"}
    assert dataset.y.tolist() == ["a", "b"]


def test_a_separator_inside_other_fields_does_not_mislead(write):
    dataset = read_table(write('"a,b,c";class\n"1,2";u\n"3,4";v\n'), target="class")
    assert values(dataset, "a,b,c") == ["1,2", "3,4"]
    loose = read_table(write("height, in cm, or so;class\n180;u\n175;v\n"), target="class")
    assert list(loose.kinds) == ["height, in cm, or so"]
    forced = read_table(write("a;b,class\n1;2,u\n3;4,v\n"), target="class", separator=",")
    assert values(forced, "a;b") == ["1;2", "3;4"]


def test_quotes_spaces_and_blank_lines(write):
    dataset = read_table(write('\nk, class\n"a ""b"", c", u\n\n   \n"two\r\nlines",  v\n'))
    assert values(dataset, "k") == ['a "b", c', "two\r\nlines"]
    assert values(dataset, "class") == ["u", "v"]


def test_encodings(write):
    text = "ort,class\nZürich,a\nKöln,b\n"
    assert values(read_table(write(text.encode("utf-16"))), "ort") == ["Zürich", "Köln"]
    latin = write(text.encode("latin-1"))
    assert values(read_table(latin, encoding="latin-1"), "ort") == ["Zürich", "Köln"]
    message = refusal(latin)
    assert all(part in message for part in (latin.name, "line 2, byte 2", "0xfc", "utf-8", "encoding"))
    assert "no encoding 'klingon'" in refusal(latin, encoding="klingon")
    assert "not utf-16 text" in refusal(write(b"\xff\xfea"))


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)]
)
def test_compression(write, suffix, compress):
    packed = compress(PLAIN.encode() * 50)
    path = write(compress(PLAIN.encode()), f"packed.csv{suffix}")
    assert read_table(path, target="class").name == "packed"
    assert "cannot read" in refusal(write(packed[:-12], f"short.csv{suffix}"))
    assert "cannot read" in refusal(write(b"not compressed at all", f"wrong.csv{suffix}"))
    broken = bytearray(packed)
    broken[len(broken) // 2] ^= 0xFF
    assert "cannot read" in refusal(write(bytes(broken), f"broken.csv{suffix}"))


def test_a_column_that_turns_out_to_be_text_late_is_read_again(write, monkeypatch):
    monkeypatch.setattr(text_columns_module, "_BLOCK", 4)
    rows = [f"{i:02},{i},{'ab'[i % 2]}" for i in range(20)]
    rows[13] = "x,13,b"
    dataset = read_table(write("k,n,class\n" + "\n".join(rows)), target="class")
    assert dataset.kinds == {"k": "discrete", "n": "continuous"}
    assert dataset.reasons["k"] == "'x' on line 15 is not a number"
    assert values(dataset, "k") == [row.split(",")[0] for row in rows]
    assert values(dataset, "n") == list(range(20))
    assert "line 15: 'x'" in refusal(write("k,n,class\n" + "\n".join(rows)), continuous=["k"])


def test_a_file_that_is_emptied_while_it_is_read(write, monkeypatch):
    path = write(PLAIN)
    monkeypatch.setattr(text_module, "_fit", lambda sample, separator: (path.write_text("") == 0, 1))
    assert "data.csv is empty" in refusal(path)


@pytest.mark.parametrize(
    "later", ["k,n,class\n1,1,a\nx,2,b\n", "n,k,class\n1,1,a\n2,2,a\nx,3,b\n"], ids=["rows", "names"]
)
def test_a_file_that_changes_before_it_is_read_again(write, monkeypatch, later):
    monkeypatch.setattr(text_columns_module, "_BLOCK", 1)
    path = write("k,n,class\n1,1,a\n2,2,a\nx,3,b\n")
    fill = text_columns_module._fill

    def fill_and_change(*arguments):
        fill(*arguments)
        path.write_text(later)

    monkeypatch.setattr(text_columns_module, "_fill", fill_and_change)
    assert "data.csv changed while it was read: read it again." in refusal(path, target="class")


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(
    rows=st.lists(st.tuples(TEXT, FINITE | st.none(), st.sampled_from("ab")), min_size=1, max_size=8),
    separator=st.sampled_from(SEPARATORS),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    block=st.integers(1, 3),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip(tmp_path_factory, monkeypatch, rows, separator, end, quoting, block):
    monkeypatch.setattr(text_columns_module, "_BLOCK", block)
    rows = [*rows, ("first", 0.0, "a"), ("second", None, "b")]
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=separator, lineterminator=end, quoting=quoting)
    writer.writerow(["any, name; of\ta|kind", "number", "class"])
    writer.writerows(rows)
    path = tmp_path_factory.getbasetemp() / "round-trip.csv"
    path.write_bytes(file.getvalue().encode())
    dataset = read_table(path, target="class")
    words = [None if text in MISSING else text for text, _, _ in rows]
    assert values(dataset, "any, name; of\ta|kind") == words
    assert values(dataset, "number") == [number for _, number, _ in rows]
    assert dataset.y.tolist() == [label for _, _, label in rows]


# What is refused


@pytest.mark.parametrize("content", ["", "\n \n", b"\xef\xbb\xbf", '""\n'])
def test_empty_file(write, content):
    assert "is empty" in refusal(write(content))


def test_header_only(write):
    assert "no rows" in refusal(write("a,class\n"), target="class")


def test_ragged_lines_are_named(write):
    message = refusal(write('a,class\n"two\nlines",u\n1,v\n1,2,v\n'))
    assert "line 5 has 3 fields instead of 2" in message
    assert "line 2 has 1 fields" in refusal(write("a,b\n1\n"))


def test_stray_quotes(write):
    assert "line 4" in refusal(write('a,class\n"1,u\n2,v\n3,u\n'))
    assert "line 3" in refusal(write('a,class\n1,u\n2,"v\n'))
    assert "line 2" in refusal(write('a,class\n"x"y,u\n2,v\n'))
    assert "quote" in refusal(write('a,class\n"1,x\n2,y\n'))


@pytest.mark.parametrize("field", ['"' + "2,y\n" * 40_000, "x" * 140_000 + ",y\n"], ids=["not closed", "long"])
def test_a_field_beyond_the_limit_is_called_that(write, field):
    says = refusal(write(f"a,class\n1,x\n{field}"))
    assert "line 3: a field that begins here has more than 131072 characters: shorten it, or look" in says
    assert "quote too many" not in says


def test_column_names(write):
    twice = write("a,b,a\n1,2,3\n")
    message = refusal(twice)
    assert "2 columns 'a'" in message
    assert "first line" in message
    assert list(read_table(twice, ignore=["a"]).kinds) == ["b"]
    nameless = write(",b\n1,2\n")
    assert "column 1" in refusal(nameless)
    assert list(read_table(nameless, ignore=[""]).kinds) == ["b"]


@pytest.mark.parametrize("option", ["target", "split", "discrete", "continuous", "ignore"])
def test_unknown_columns_get_a_suggestion(write, option):
    path = write(PLAIN)
    name = "color" if option in ("target", "split") else ["color"]
    assert refusal(path, **{option: name}) == f"{path} has no column 'color'; did you mean 'colour'?"
    assert "'size', 'colour', 'class'" in refusal(path, target="zzz")


def test_labels_of_one_class_or_none(write):
    assert "only the class 'a'" in refusal(write("x,class\n1,a\n2,a\n3,\n"), target="class")
    assert "no label" in refusal(write("x,class\n1,\n2,?\n"), target="class")


LONG = "\U000e0001" + "x" * 5000  # repr writes the first in ten characters


def test_long_texts_are_quoted_in_part(write):
    path = write(f"{LONG},split,class\n1,{LONG},a\n{LONG},train,a\n")
    assert "only the class 'a'" in refusal(path, target="class")
    assert "xxx...'" in refusal(write(f"x,class\n1,{LONG}\n", "one.csv"), target="class")
    assert "xxx...'" in refusal(path, target=LONG, ignore=[LONG])
    assert "xxx...'" in refusal(path, continuous=[LONG])
    assert "xxx...'" in refusal(path, split="split")
    assert "xxx...'" in refusal(path, target=LONG[1:])
    assert "xxx...'" in refusal(write(f"{LONG},{LONG}\n1,2\n", "twice.csv"))
    assert LONG not in read_table(path).reasons[LONG]


def test_no_feature_left(write):
    assert "no feature" in refusal(write("class\na\nb\n"), target="class")
    assert "no feature" in refusal(write(PLAIN), ignore=["size", "colour", "class"])


def test_roles_that_contradict(write):
    path = write(PLAIN)
    assert "'size'" in refusal(path, discrete=["size"], continuous=["size"])
    assert "'class'" in refusal(path, target="class", ignore=["class"])
    assert "'class'" in refusal(path, target="class", split="class")
    assert "list of column names" in refusal(path, discrete="size")
    assert "list of texts" in refusal(path, missing="NA")
    assert read_table(path, target="class", discrete=["class", "size"]).target == "class"


def test_a_split_says_train_or_test(write):
    path = write("split,x,class\ntrain,1,a\nvalid,2,b\n")
    message = refusal(path, target="class", split="split")
    assert "row 2" in message
    assert "'valid'" in message


def test_paths(write, tmp_path):
    assert "no file" in refusal(tmp_path / "absent.csv")
    assert "no file" in refusal(tmp_path / "absent.parquet")
    assert "cannot tell the format" in refusal(write(PLAIN, "data.xyz"))
    assert "as a file of Excel" in refusal(write(PLAIN, "data.xlsx"))
    (tmp_path / "folder.csv").mkdir()
    assert "cannot read" in refusal(tmp_path / "folder.csv")
    assert "single character" in refusal(write(PLAIN), separator="::")


def test_no_frame_library(write, monkeypatch):
    monkeypatch.setattr(columns_module, "FRAMES", ("no_such_library",))
    assert "pip install 'fanbayes[files]'" in refusal(write(PLAIN))


# ARFF

ARFF = """\
% weather
@RELATION weather

@attribute outlook {sunny, 'partly cloudy', "it's \\"wet\\"", never}
@attribute 'wind speed' REAL
@attribute code{1,2,1}
@attribute remark string
@attribute day date "yyyy-MM-dd"
@attribute play {yes, no}
@data
sunny, 1.5, 1, 'a, b', 2020-01-01, yes
% a comment
'partly cloudy', ?, 2, plain, ?, no
"it's \\"wet\\"", 3, ?, 'don\\'t', 2020-01-02, ?
"""


def test_arff(write, library):
    dataset = read_table(write(ARFF, "weather.arff"), target="play")
    assert dict(dataset.kinds) == {
        "outlook": "discrete",
        "wind speed": "continuous",
        "code": "discrete",
        "remark": "discrete",
        "day": "discrete",
    }
    assert values(dataset, "outlook") == ["sunny", "partly cloudy", 'it\'s "wet"']
    assert values(dataset, "wind speed") == [1.5, None, 3.0]
    assert values(dataset, "code") == ["1", "2", None]
    assert values(dataset, "remark") == ["a, b", "plain", "don't"]
    assert dataset.y.tolist() == ["yes", "no", None]
    declared = nw.from_native(dataset.X).schema["outlook"]
    assert list(declared.categories) == ["sunny", "partly cloudy", 'it\'s "wet"', "never"]
    assert nw.from_native(dataset.X).schema["wind speed"] == nw.Float64


def test_arff_kinds_can_be_overruled(write):
    path = write(gzip.compress(ARFF.encode()), "weather.arff.gz")
    dataset = read_table(path, target="play", discrete=["wind speed"], continuous=["code"])
    assert values(dataset, "wind speed") == ["1.5", None, "3"]
    assert values(dataset, "code") == [1.0, 2.0, None]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("sunny, 1.5", "suny, 1.5", ["line 11", "'suny'", "'outlook'", "did you mean 'sunny'"]),
        ("sunny, 1.5", "sunny, fast", ["line 11", "'fast'", "'wind speed'"]),
        ("sunny, 1.5", "{0 sunny, 1 1.5", ["line 11", "sparse"]),
        ("sunny, 1.5, 1", "sunny, 1.5", ["line 11", "5 fields"]),
        ("'a, b'", "'a, b", ["line 11", "quote"]),
        ("@data", "", ["line 11", "declaration"]),
        ("@data", "%", ["declaration"]),
        ("remark string", "remark", ["line 7", "type"]),
        ("remark string", "remark relational", ["line 7", "'remark'"]),
        ("never}", "never", ["line 4", "brace"]),
        ("@attribute remark string", f"@attribute {LONG} {{a", ["line 7", "brace", "xxx...'"]),
        ("@attribute remark string", f"@attribute {LONG} relational", ["line 7", "xxx...'"]),
        ("@attribute remark string", LONG, ["line 7", "declaration", "xxx...'"]),
        ("sunny, 1.5", f"{LONG}, 1.5", ["line 11", "xxx...'", "'outlook'", "there are 'sunny'"]),
    ],
)
def test_arff_refusals(write, old, new, words):
    message = refusal(write(ARFF.replace(old, new, 1), "weather.arff"), target="play")
    assert all(word in message for word in words), message


def test_arff_without_data(write):
    assert "no @data" in refusal(write("@relation r\n@attribute a real\n", "r.arff"))
    assert "no rows" in refusal(write("@relation r\n@attribute a real\n@data\n", "r.arff"))


# Parquet and frames


@pytest.fixture
def stored(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "x": [1, 2, 3],
            "k": ["?", None, ""],
            "level": pd.Categorical(["u", "v", None], ["u", "v", "w"]),
            "flag": [True, False, True],
            "code": [1.0, float("nan"), 2.0],
            "wild": [1.0, float("inf"), 2.0],
            "label": [0, 1, 1],
        },
        index=[7, 5, 9],
    )
    path = tmp_path / "stored.parquet"
    frame.to_parquet(path)
    return path


def test_parquet(stored, library):
    dataset = read_table(stored, target="label", discrete=["code"], ignore=["wild"])
    assert list(dataset.kinds) == ["x", "k", "level", "flag", "code"]
    assert list(dataset.kinds.values()) == ["continuous", "discrete", "discrete", "discrete", "discrete"]
    assert dataset.reasons["x"] == "stored as Int64"
    assert values(dataset, "x") == [1.0, 2.0, 3.0]
    assert values(dataset, "k") == ["?", None, ""]
    assert values(dataset, "level") == ["u", "v", None]
    assert values(dataset, "flag") == ["True", "False", "True"]
    assert values(dataset, "code") == ["1", None, "2"]
    assert dataset.y.tolist() == ["0", "1", "1"]
    if library == "pandas":
        assert list(dataset.X["level"].cat.categories) == ["u", "v", "w"]


def test_parquet_refusals(stored, write, monkeypatch):
    assert "infinite in row 2" in refusal(stored, target="label")
    assert "'k'" in refusal(stored, ignore=["wild"], continuous=["k"])
    assert "as Parquet" in refusal(write(b"PAR1 nonsense", "bad.parquet"))

    def absent(name: str) -> None:
        raise ImportError(f"no {name}")

    monkeypatch.setattr("fanbayes.files.formats.import_module", absent)
    assert "pip install 'fanbayes[files]'" in refusal(stored)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_odd_types_are_refused_by_name(library):
    frames = pytest.importorskip(library)
    days = [date(2020, 1, 1), date(2020, 1, 2)]
    for odd in ([[1], [2]], [{"a": 1}, {"a": 2}], [b"1", b"2"], days, [datetime(2020, 1, 1)] * 2):
        frame = frames.DataFrame({"odd": odd, "x": [1, 2]})
        remedy = (
            "turn them into numbers, such as .*, or ignore it" if isinstance(odd[0], date) else "ignore it, or convert"
        )
        with pytest.raises(DatasetError, match=rf"column 'odd' of mine holds \w+ values \(row 1\): {remedy}"):
            from_frame(frame, name="mine")
        assert list(from_frame(frame, name="mine", ignore=["odd"]).kinds) == ["x"]
    dataset = from_frame(frames.DataFrame({"odd": days}), name="mine", discrete=["odd"])
    assert values(dataset, "odd") == ["2020-01-01", "2020-01-02"]


def test_from_frame_keeps_the_library():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"k": ["a", "b"], "x": [1, 2], "class": ["u", "v"]})
    dataset = from_frame(frame, name="mine", target="class")
    assert isinstance(dataset.X, pl.DataFrame)
    assert dataset.X.columns == ["k", "x"]
    assert np.array_equal(dataset.y, ["u", "v"])


def test_an_encoding_with_a_null_character_is_refused(write):
    with pytest.raises(DatasetError, match="there is no encoding"):
        read_table(write("a,b\n1,2\n"), encoding="a\0b")


def test_numbers_of_a_target_that_the_file_calls_text_are_classes(tmp_path):
    labels = ["1.5", "1.50", "2"]
    pl.DataFrame({"a": [1, 2, 3], "y": labels}).write_parquet(tmp_path / "text.parquet")
    assert read_table(tmp_path / "text.parquet", target="y").classes == labels
    (tmp_path / "nominal.arff").write_text("@attribute a numeric\n@attribute y {1.5,2}\n@data\n1,1.5\n2,2\n")
    assert read_table(tmp_path / "nominal.arff", target="y").classes == ["1.5", "2"]
    (tmp_path / "numbers.arff").write_text("@attribute a numeric\n@attribute y numeric\n@data\n1,1.5\n2,2\n")
    pl.DataFrame({"a": [1, 2, 3], "y": [1.5, 2, None]}).write_parquet(tmp_path / "numbers.parquet")
    for name in ("numbers.arff", "numbers.parquet"):
        with pytest.raises(DatasetError, match=r"column .y. of .* holds 2 different numbers, not all whole"):
            read_table(tmp_path / name, target="y")
        assert read_table(tmp_path / name, target="y", discrete=["y"]).classes == ["1.5", "2"]
