"""What distinguishes components, against their tables of parameters."""

import numpy as np
import pytest

from fanbayes.explanation.profiles import component_profiles


@pytest.mark.parametrize("name", ["nb", "fan", "per class", "fm"])
def test_profiles(name, explained_models):
    """Against means and variances read off the tables of parameters."""
    clf = explained_models[name]
    found = component_profiles(clf.network_, clf.schema_)
    length, flag = clf.feature_table("length"), clf.feature_table("flag")
    p = flag[flag["level"] == True]["probability"].to_numpy()  # noqa: E712
    of_class = length["class"].to_numpy() if name in ("fan", "per class") else np.zeros(len(length))
    assert found.share.sum() == pytest.approx(1)
    assert [t for t in found.traits if t[0] == "flag"] == [("flag", True)]
    for trait, mean, variance in (
        (("length", None), length["mean"].to_numpy(), length["variance"].to_numpy()),
        (("flag", True), p, p * (1 - p)),
    ):
        difference = found.difference[found.traits.index(trait)]
        for c in set(of_class):
            own = of_class == c
            share = found.share[own] / found.share[own].sum()
            centre = share @ mean[own]
            spread = share @ (variance[own] + (mean[own] - centre) ** 2)
            np.testing.assert_allclose(difference[own], (mean[own] - centre) / np.sqrt(spread), rtol=1e-9)
        assert found.weight[found.traits.index(trait)] == pytest.approx(np.sqrt(found.share @ difference**2))
