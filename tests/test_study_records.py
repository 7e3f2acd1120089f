"""The folder of a study: written line by line, recovered after a kill, refused where it is another's."""

import errno
import json
import lzma
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanbayes.study.cards import Card
from fanbayes.study.outcomes import Outcomes
from fanbayes.study.real import RealTask
from fanbayes.study.records import OtherStudy, StudyError, StudyFolder, key_of, read_study

SETTINGS = {"study": "real", "fanbayes": "1", "suite": "toy", "seed": 0, "presets": {"paper": {"tol": 1e-6}}}
ABOUT = {"commit": "abc"}
CARD = Card("toy", 10, 10, 1, 0, 2, 5, False, None, "abc")
TASK = RealTask("toy", "raw", 0, "FM", "default")
RECORD = {"dataset": "toy", "version": "raw", "fold": 0, "model": "FM", "preset": "default", "criterion": "icl"}
RECORD |= {"run": 0}


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in (path / "records.jsonl").read_text().splitlines()]


def test_records_are_kept_and_known_again(tmp_path):
    with StudyFolder(tmp_path, SETTINGS, [CARD], {}, ABOUT) as folder:
        assert not folder.is_done(TASK)
        folder.add([RECORD | {"accuracy": 0.1 + 0.2}])
        assert folder.is_done(TASK)
    with StudyFolder(tmp_path, SETTINGS, [CARD], {}, ABOUT) as folder:
        assert folder.is_done(TASK)
        folder.add([RECORD | {"accuracy": 0.5}])
    assert lines(tmp_path) == [RECORD | {"accuracy": 0.1 + 0.2}]


def test_records_know_their_run(tmp_path):
    for fold, commit in enumerate("aba"):
        with StudyFolder(tmp_path, SETTINGS, [CARD], {}, {"commit": commit}) as folder:
            folder.add([RECORD | {"fold": fold}])
    assert [record["run"] for record in lines(tmp_path)] == [0, 1, 0]
    assert read_study(tmp_path)[0]["environments"] == [{"commit": "a"}, {"commit": "b"}]


def test_a_line_cut_short_is_dropped(tmp_path):
    with StudyFolder(tmp_path, SETTINGS, [CARD], {}, ABOUT) as folder:
        folder.add([RECORD | {"fold": 1}])
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write('{"dataset":"toy","fold":2,"acc')
    assert len(read_study(tmp_path)[1]) == 1
    with StudyFolder(tmp_path, SETTINGS, [CARD], {}, ABOUT) as folder:
        folder.add([RECORD | {"fold": 3}])
    assert [record["fold"] for record in lines(tmp_path)] == [1, 3]


def test_a_record_that_does_not_fit_the_disk_is_not_counted_and_glued_to_none(tmp_path, monkeypatch):
    real, room = os.write, [150]  # a line has some 100 bytes

    def write(fd, data):
        """Take what fits, as a disk does that becomes full."""
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(fd, data[: room[0]])
        room[0] -= written
        return written

    with StudyFolder(tmp_path, SETTINGS, [CARD], {}, ABOUT) as folder:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write)
            with pytest.raises(OSError, match=r"records\.jsonl cannot be written: No space left on device$"):
                folder.add([RECORD | {"model": "NB"}, RECORD])
        assert not folder.is_done(TASK)
        folder.add([RECORD | {"fold": 2}])
    assert lines(tmp_path) == [RECORD | {"model": "NB"}, RECORD | {"fold": 2}]


def test_an_error_counts_until_the_task_succeeds(tmp_path):
    with StudyFolder(tmp_path, SETTINGS, [CARD], {}, ABOUT) as folder:
        for error in ("no memory", "no memory", "no time"):
            folder.add([RECORD | {"error": error}])
        assert not folder.is_done(TASK)
        folder.add([RECORD | {"accuracy": 1.0}])
        assert folder.is_done(TASK)
        folder.add([RECORD | {"error": "no memory"}])
    assert [record.get("error") for record in lines(tmp_path)] == ["no memory", "no time", None]
    assert read_study(tmp_path)[1] == [RECORD | {"accuracy": 1.0}]


@pytest.mark.parametrize(
    ("changed", "named"), [({"seed": 1}, "'seed' is 0 there and 1 here"), ({"presets": {}}, "'presets' differs")]
)
def test_the_folder_of_another_study_is_refused(tmp_path, changed, named):
    with StudyFolder(tmp_path, SETTINGS, [CARD], {}, ABOUT):
        pass
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(OtherStudy, match=f"belongs to another study, whose setting {named}"):
        StudyFolder(tmp_path, SETTINGS | changed, [CARD], {}, ABOUT)
    with pytest.raises(OtherStudy, match="whose dataset 'toy' has other content"):
        StudyFolder(tmp_path, SETTINGS, [replace(CARD, sha256="other")], {}, ABOUT)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_records_without_settings_are_refused(tmp_path):
    (tmp_path / "records.jsonl").write_text("{}\n")
    with pytest.raises(OtherStudy, match=r"records but no study\.json"):
        StudyFolder(tmp_path, SETTINGS, [CARD], {}, ABOUT)
    (tmp_path / "study.json").write_text("[")
    with pytest.raises(OtherStudy, match="cannot read"):
        StudyFolder(tmp_path, SETTINGS, [CARD], {}, ABOUT)


def test_a_run_that_was_killed_before_its_first_line_goes_on(tmp_path):
    (tmp_path / "records.jsonl").touch()
    with StudyFolder(tmp_path, SETTINGS, [CARD], {}, ABOUT) as folder:
        assert folder.records == {}


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    pytest.importorskip("fcntl")
    with StudyFolder(tmp_path, SETTINGS, [CARD], {}, ABOUT), pytest.raises(StudyError, match="another run writes to"):
        StudyFolder(tmp_path, SETTINGS, [CARD], {}, ABOUT)


def test_datasets_add_up_and_a_mended_one_is_no_longer_broken(tmp_path):
    with StudyFolder(tmp_path, SETTINGS, [CARD], {"bad": "bad.csv is empty."}, ABOUT):
        pass
    assert read_study(tmp_path)[0]["broken"] == {"bad": "bad.csv is empty."}
    with StudyFolder(tmp_path, SETTINGS, [replace(CARD, name="bad")], {}, ABOUT):
        pass
    head, _ = read_study(tmp_path)
    assert sorted(head["datasets"]) == ["bad", "toy"]
    assert head["broken"] == {}
    assert len(head["environments"]) == 1


def test_compressed_records_are_read_but_not_written_to(tmp_path):
    with StudyFolder(tmp_path, SETTINGS, [CARD], {}, ABOUT) as folder:
        folder.add([RECORD])
    plain = tmp_path / "records.jsonl"
    (tmp_path / "records.jsonl.xz").write_bytes(lzma.compress(plain.read_bytes()))
    plain.unlink()
    assert read_study(tmp_path)[1] == [RECORD]
    with pytest.raises(OtherStudy, match="unpack"):
        StudyFolder(tmp_path, SETTINGS, [CARD], {}, ABOUT)


def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path):
    with pytest.raises(StudyError, match=r"no study\.json"):
        read_study(tmp_path)
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(StudyError, match="run the study first"):
        read_study(tmp_path)
    (tmp_path / "records.jsonl").write_text("{}\noops\n{}\n")
    with pytest.raises(StudyError, match=r"line 2 .* damaged"):
        read_study(tmp_path)


def test_the_key_of_a_record_is_what_it_is_about():
    assert key_of(RECORD | {"accuracy": 0.5, "fit_seconds": 1.0}) == key_of(RECORD)
    assert key_of(RECORD | {"fold": 1}) != key_of(RECORD)


magnitude = st.floats(1e-30, 800)
log_odds = magnitude | magnitude.map(lambda x: -x) | st.sampled_from([0.0, -0.0, np.inf, -np.inf, 1e-12, -1e-12])


@given(st.lists(st.tuples(log_odds, st.booleans()), min_size=1))
def test_binary_outcomes_survive_packing(rows):
    odds, positive = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    with np.errstate(invalid="ignore"):
        loss = np.minimum(np.logaddexp(0, np.where(positive, -odds, odds)), -np.log(1e-15))
    outcomes = Outcomes((odds > 0) == positive, loss, np.exp(-np.logaddexp(0, -np.abs(odds))), odds, positive)
    back = Outcomes.unpack(json.loads(json.dumps(outcomes.pack())))
    assert (back.correct == outcomes.correct).all()
    assert (back.positive == positive).all()
    np.testing.assert_allclose(back.log_odds, odds, rtol=2e-5, atol=1e-30)
    np.testing.assert_allclose(back.confidence, outcomes.confidence, atol=1e-4)
    np.testing.assert_allclose(back.loss, loss, rtol=2e-2)


@given(st.lists(st.tuples(st.floats(0, 34.5), st.floats(0.2, 1), st.booleans()), min_size=1))
def test_outcomes_of_many_classes_survive_packing(rows):
    loss, confidence, correct = (np.array(column) for column in zip(*rows))
    outcomes = Outcomes(correct, loss, np.where(correct, np.exp(-loss), confidence))
    back = Outcomes.unpack(outcomes.pack())
    assert (back.correct == correct).all()
    assert back.log_odds is None
    np.testing.assert_allclose(back.loss, loss, rtol=2e-5, atol=1e-30)
    np.testing.assert_allclose(back.confidence, outcomes.confidence, rtol=1e-3)


def test_outcomes_pool():
    one = Outcomes(np.array([True]), np.array([0.1]), np.array([0.9]))
    two = Outcomes(np.array([False, True]), np.array([1.0, 0.2]), np.array([0.6, 0.8]))
    pooled = Outcomes.pool([one, two])
    assert pooled.correct.tolist() == [True, False, True]
    assert pooled.log_odds is None
