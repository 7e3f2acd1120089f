"""What the study of real data runs."""

from builders import toy_dataset

from fanbayes.study.cards import describe
from fanbayes.study.real import RealPlan, RealTask


def test_tasks_of_a_dataset():
    card = describe(toy_dataset(["a", "b"] * 20))
    assert (card.kind, card.n_classes, card.smallest_class) == ("continuous", 2, 20)
    tasks = RealPlan(n_folds=5).tasks(card)
    assert len(tasks) == len(set(tasks)) == 2 * 5 * 3 * 2
    assert RealTask("toy", "raw", 0, "FAN", "paper").criteria == ("icl", "bic", "aic", "cs", "icl_cem")
    assert RealTask("toy", "raw", 0, "FM", "default").criteria == ("icl",)
    assert RealTask("toy", "raw", 0, "NB", "paper").criteria == ("none",)
