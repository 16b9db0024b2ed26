"""Titles of Compare state findings, with no more certainty than the numbers support."""

import pandas as pd
import pytest

from app.charts import cost, paired, sweep
from app.compare.headline import by_value, headline, title, title_by_value
from app.data.comparison import per_run, ranking, surpassed
from tests.app.frames import clients


def runs(test_size: int = 1000, **accuracies: list[list[float]]) -> pd.DataFrame:
    """Rows per run; ``One`` is FedAvg and ``Alone`` is LocalTrain."""
    named = clients(test_size, **accuracies)
    known = named["method"].map({"One": "fedavg", "Alone": "local_train"})
    return per_run(named.assign(algorithm=known.fillna(named["method"])), 0.05)


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [
        (3, "Four beats One (76 % against 44 %) and Alone (54 %)"),
        (2, "Four is ahead of One (76 % against 44 %) and Alone (54 %), over two seeds"),
        (1, "Four is ahead of One (76 % against 44 %) and Alone (54 %), over one seed"),
    ],
)
def test_a_title_compares_the_best_with_one_model_for_all_and_training_alone(seeds: int, expected: str) -> None:
    assert (
        title(runs(Four=[[0.76]] * seeds, One=[[0.44]] * seeds, Next=[[0.7]] * seeds, Alone=[[0.54]] * seeds))
        == expected
    )


def test_without_both_references_the_best_is_compared_with_the_next() -> None:
    assert title(runs(A=[[0.9]] * 3, C=[[0.7]] * 3, B=[[0.8]] * 3)) == "A beats B (90 % against 80 %)"
    assert title(runs(A=[[0.9]] * 3, B=[[0.8]] * 3, One=[[0.4]] * 3)) == "A beats B (90 % against 80 %) and One (40 %)"
    assert title(runs(One=[[0.9]] * 3, Alone=[[0.4]] * 3)) == "One beats Alone (90 % against 40 %)"


def test_methods_that_cannot_be_distinguished_are_named_together() -> None:
    level = runs(A=[[0.800], [0.700], [0.600]], B=[[0.801], [0.701], [0.599]], One=[[0.1]] * 3)
    assert title(level) == "B and A are tied at 70 %; B is clearly ahead of One (10 %)"
    apart = runs(A=[[0.938], [0.928], [0.934]], B=[[0.937], [0.926], [0.931]])
    assert title(apart) == "A and B are tied at 93 %"
    over_a_boundary = runs(A=[[0.9355], [0.936], [0.9365]], B=[[0.935], [0.9345], [0.934]], One=[[0.1]] * 3)
    assert title(over_a_boundary) == "A and B are tied at 93 to 94 %; A is clearly ahead of One (10 %)"
    many = {name: [[0.8], [0.6], [0.7 + i / 10]] for i, name in enumerate("ABCD")}
    assert title(runs(**many)) == "D is highest at 80 %, but any of 4 methods could be best"


def test_a_title_says_which_methods_may_be_as_good_each_with_its_own_number() -> None:
    unclear = runs(A=[[0.8], [0.6], [0.7]], B=[[0.5], [0.85], [0.68]], One=[[0.1]] * 3)
    assert title(unclear) == "A is highest at 70 %; B (68 %) may be as good; A is clearly ahead of One (10 %)"
    first_look = runs(
        Ditto=[[0.935], [0.953], [0.947]],
        pFedMe=[[0.932], [0.952], [0.945]],
        One=[[0.934], [0.931], [0.933]],
        CGPFL=[[0.923], [0.937], [0.932]],
        Alone=[[0.848], [0.850], [0.846]],
    )
    assert title(first_look) == (
        "Ditto is highest at 94.5 %; pFedMe (94.3 %) and One (93.3 %) may be as good; "
        "Ditto is clearly ahead of CGPFL (93.1 %) and Alone (84.8 %)"
    )


def test_equal_means_are_tied_and_a_missing_common_seed_is_reported() -> None:
    assert title(runs(A=[[0.8]], B=[[0.8]])) == "A and B are equal at 80 %, over one seed"
    apart = runs(A=[[0.8]], B=[[0.7]])
    apart.loc[apart["method"] == "B", ["split", "seed"]] = 5
    assert title(apart) == "A is highest at 80 %, but the methods have no seed in common"


def test_with_unequal_seeds_a_method_that_wins_all_shared_ones_is_named() -> None:
    accuracies = {"A": [[0.80], [0.80], [0.80], [0.95], [0.95]], "B": [[0.85], [0.851], [0.849]]}
    assert title(runs(**accuracies)) == "A is highest at 86 %, but B is ahead where both have results"
    text = headline(runs(**accuracies), 0.05, clients(1000, **accuracies))
    assert text.startswith("A has the highest mean accuracy, but B is ahead where both have results (3 seeds); ")


def test_a_noisy_third_method_does_not_hide_that_the_cheapest_is_surpassed() -> None:
    rows = runs(
        A=[[0.80], [0.81], [0.82], [0.80], [0.81]],
        Cheap=[[0.779], [0.791], [0.801], [0.778], [0.79]],
        Noisy=[[0.60], [0.95], [0.70], [0.90], [0.72]],
    )
    assert set(ranking(rows, "mean").tied) == {"A", "Cheap", "Noisy"} and surpassed(rows, "mean") == {"Cheap"}


@pytest.mark.parametrize(("of_b", "doubt"), [(0.80, "B is ahead"), (0.70, "B is level")])
def test_methods_with_other_seeds_are_equal_only_where_they_share_results(of_b: float, doubt: str) -> None:
    found = runs(A=[[0.7], [0.95]], B=[[of_b]])
    assert title(found) == f"A is highest at 82 %, but {doubt} where both have results"
    text = headline(found, 0.05, clients(1000, A=[[0.7], [0.95]], B=[[of_b]]))
    assert text.startswith(f"A has the highest mean accuracy, but {doubt} where both have results")
    assert text.endswith("One seed is too few to tell.")


def test_a_missing_common_seed_with_the_second_is_reported() -> None:
    found = runs(A=[[0.9], [0.8]], B=[[0.7]], C=[[0.6]])
    found.loc[found["method"] == "B", ["split", "seed"]] = 5
    assert title(found) == "A is highest at 85 %, but it has no seed in common with B"
    assert headline(found, 0.05, clients(1000, A=[[0.9], [0.8]], B=[[0.7]], C=[[0.6]])) == (
        "A has the highest mean accuracy, but it has no seed in common with B."
    )


def test_tenths_appear_only_where_whole_percents_would_be_equal_and_samples_support_them() -> None:
    assert title(runs(1000, A=[[0.982]] * 3, B=[[0.978]] * 3)) == "A beats B (98.2 % against 97.8 %)"
    assert title(runs(20, A=[[0.982]] * 3, B=[[0.978]] * 3)) == "A beats B (98 % against 98 %)"


def test_the_lowest_clients_have_a_separate_title() -> None:
    rows = runs(A=[[0.5, 0.99]] * 3, B=[[0.6, 0.7]] * 3)
    assert title(rows) == "A beats B (74 % against 65 %)"
    assert title(rows, "lowest", "tail_samples") == "B beats A (60 % against 50 %)"


def test_a_title_averages_the_seeds_of_a_split_first() -> None:
    frame = clients(1000, A=[[0.9]] * 5 + [[0.6]] * 2, B=[[0.92], [0.62], [0.62]])
    drawn = {"A": [0, 0, 0, 0, 0, 1, 2], "B": [0, 1, 2]}
    frame["split"] = [split for method in ("A", "B") for split in drawn[method]]
    found = per_run(frame, 0.05)
    assert title(found) == "B beats A (72 % against 70 %)"
    assert by_value(found) == "Mean accuracy: 70.0 % for A, 72.0 % for B."


def test_pooled_runs_have_a_range_and_no_leader() -> None:
    assert title_by_value(runs(low=[[0.81]], high=[[0.92]])) == "Mean accuracy from 81 % (low) to 92 % (high)"


def test_the_title_of_two_methods_counts_clients_and_mentions_chance() -> None:
    def title_of(a: list[float], b: list[float]) -> str:
        return paired.verdict(paired.data(clients(1000, a=[a], b=[b]), "a", "b")).heading("A", "B")

    ten = [0.5 + i / 100 for i in range(10)]
    assert title_of([x + 0.1 + i / 1000 for i, x in enumerate(ten)], ten) == (
        "10 of 10 clients do better with A than with B, none worse"
    )
    mixed = [x + (0.1 + i / 1000) * (-1) ** i for i, x in enumerate(ten)]
    assert title_of(mixed, ten) == "5 of 10 clients do better with A than with B, 5 worse, which may be chance"
    assert title_of([0.6, 0.5], [0.5, 0.5]) == (
        "1 of 2 clients does better with A than with B, none worse; too few differ to tell"
    )
    assert title_of(ten, ten) == "A and B are equally accurate for each of 10 clients"


def test_the_title_of_costs_compares_the_best_with_the_cheapest() -> None:
    def title_of(**accuracies: list[list[float]]) -> str:
        rows = runs(**accuracies)
        rows = rows.assign(megabytes=rows["method"].map({"Dear": 30.0}).fillna(10.0), gradient_evaluations=1, seconds=1)
        return cost.heading(
            cost.data(rows, "megabytes"), ranking(rows, "mean").tied, surpassed(rows, "mean"), "megabytes"
        )

    assert (
        title_of(Dear=[[0.9]] * 3, Cheap=[[0.8]] * 3)
        == "Dear gains 10.0 points over Cheap, the cheapest, for 20 MB more"
    )
    assert title_of(Dear=[[0.9]] * 2, Cheap=[[0.8]] * 2).endswith("for 20 MB more, over two seeds")
    assert title_of(Dear=[[0.7]] * 3, Cheap=[[0.8]] * 3) == "Cheap is the most accurate at the lowest cost"
    assert (
        title_of(Dear=[[0.7]] * 2, Cheap=[[0.8]] * 2)
        == "Cheap has the highest mean accuracy at the lowest cost, over two seeds"
    )
    unclear = title_of(Dear=[[0.8], [0.6], [0.72]], Cheap=[[0.5], [0.85], [0.7]])
    assert unclear == "No method is clearly more accurate than Cheap, the cheapest"


@pytest.mark.parametrize(("seeds", "verb"), [(3, "is best"), (2, "ranks first")])
def test_the_title_of_a_sweep_names_a_best_value_only_if_it_is_clear(seeds: int, verb: str) -> None:
    rows = runs(**{f"d{lam}": [[0.9 - 0.1 * lam]] * seeds for lam in (1, 2, 3)})
    rows = rows.assign(algorithm="ditto", options=[{"lam": int(name[1:])} for name in rows["method"]])
    assert sweep.heading(sweep.data(rows, "lam"), "λ") == f"λ = 1 {verb} for Ditto"
