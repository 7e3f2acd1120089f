"""The presets of the studies."""

from fanbayes.study.models import classifier, presets


def test_the_paper_preset_says_what_the_paper_does():
    fan = classifier("FAN", "paper", "raw", 3, seed=7)
    assert (
        fan.get_params().items()
        >= {
            "variance_estimator": "paper",
            "criterion": "icl",
            "alpha": 1.0,
            "algorithm": "em",
            "mixing": "shared",
            "n_init": 8,
            "tol": 1e-6,
            "max_components": 10,
            "discretize": "none",
            "random_state": 7,
        }.items()
    )
    assert classifier("FM", "paper", "discretised", 3, seed=7).max_components == 16
    assert classifier("FM", "paper", "discretised", 3, seed=7).discretize == "mdlp"
    assert classifier("NB", "default", "raw", 3, seed=7).variance_estimator == "map"
    assert presets()["default"]["FAN"]["variance_estimator"] == "map"
