"""Gold standards of the study of simulated data, and what it runs."""

from fanbayes.study.cards import Card
from fanbayes.study.models import CRITERIA
from fanbayes.study.simulated import SimulatedPlan


def card(name, n_discrete, n_continuous):
    return Card(name, 100, 100, n_discrete, n_continuous, 2, 50, False, None, name)


def test_gold_standards_are_those_of_the_list_and_others_of_their_kind():
    cards = [card(f"d{i}", 3, 0) for i in range(5)] + [card("diabetes", 0, 8), card("c", 0, 2), card("m", 1, 1)]
    cards.insert(0, card("vote", 16, 0))
    picked = [c.name for c in SimulatedPlan().choose(cards)]
    assert picked == ["vote", "d0", "d1", "diabetes", "c", "m"]
    assert SimulatedPlan(chosen=("c",)).choose([card("c", 0, 2)]) == [card("c", 0, 2)]


def test_simulated_tasks_know_the_gold_standard_once():
    tasks = SimulatedPlan(sizes=(50, 100), n_pairs=3).tasks(card("c", 0, 2))
    assert len(tasks) == 2 * 3 * 2
    assert sum("gold" in task.criteria for task in tasks) == 6
    assert tasks[0].criteria == ("gold", *CRITERIA)
