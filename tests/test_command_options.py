"""Options that several commands share."""

import shlex

from hypothesis import given
from hypothesis import strategies as st

from fanbayes.commands.options import names, pasted


@given(st.lists(st.text(), min_size=1, unique=True))
def test_names_that_are_pasted_are_read_as_they_were(columns):
    assert names(shlex.split(pasted(columns))) == columns
