"""The oldest versions that are declared are complete, so that `make test-oldest` can prove them."""

from pathlib import Path

import pytest
from oldest import constraints

PROJECT = """
[build-system]
requires = ["builder>=0.11"]
[project]
name = "p"
dependencies = ["a-b>=1.2"]
[project.optional-dependencies]
test = ["p[docs]", "c[x]>=3"]
docs = [{}]
"""


def test_oldest_versions_of_all_requirements():
    assert constraints(PROJECT.format('"d>=4.0.1"')) == ["a-b==1.2", "builder==0.11", "c==3", "d==4.0.1"]
    with pytest.raises(ValueError, match="does not say which d is the oldest"):
        constraints(PROJECT.format('"d"'))


def test_every_requirement_names_the_oldest_version_that_works():
    assert constraints((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))
