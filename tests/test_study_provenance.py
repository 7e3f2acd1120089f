"""Which code made something: named where a repository holds it, and nowhere else."""

import re
import shutil
import subprocess

import pytest

from fanbayes.study.provenance import commit


def test_code_is_named_where_a_repository_holds_it(tmp_path):
    def git(*arguments):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True, capture_output=True)

    if shutil.which("git") is None:
        pytest.skip("no git")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("1\n")
    assert commit(tmp_path / "code") == "unknown"
    git("init")
    git("-c", "user.name=n", "-c", "user.email=e", "commit", "--allow-empty", "-m", "empty")
    assert commit(tmp_path / "code") == "unknown"  # in the repository's folder, but not its code
    git("add", ".")
    git("-c", "user.name=n", "-c", "user.email=e", "commit", "-m", "code")
    assert re.fullmatch("[0-9a-f]{7,}", commit(tmp_path / "code"))
    (tmp_path / "code" / "a.py").write_text("2\n")
    assert re.fullmatch("[0-9a-f]{7,}-dirty", commit(tmp_path / "code"))
