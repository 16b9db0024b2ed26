"""The numbers and sentences of a study, without a database."""

from math import inf, sqrt
from types import SimpleNamespace
from typing import cast

import numpy as np
import pandas as pd
import pytest

from app.data.comparison import per_run
from app.statistics.intervals import Interval
from app.statistics.pairs import Pair
from app.statistics.verdicts import relation
from app.study import equal_cost, finals, finding, numbers, ranks
from app.study.numbers import Difference
from app.study.study import Study


def clients(splits: int = 3, seeds: int = 2, **accuracies: list[float]) -> pd.DataFrame:
    """``A=[clients]`` of the tuned runs; splits are 5 points apart, the defaults 10 points lower."""
    rows, run = [], 0
    for method, own in accuracies.items():
        for setting, less in (("default", 0.1), ("tuned", 0.0)):
            for split in range(splits):
                for seed in range(seeds):
                    run += 1
                    rows += [
                        {
                            "run": run,
                            "method": method,
                            "algorithm": "local_train" if method == "LocalTrain" else method.lower(),
                            "split": split,
                            "seed": 100 + seed,
                            "setting": setting,
                            "client": i,
                            "accuracy": accuracy - less - 0.05 * split,
                            "test_size": 50,
                        }
                        for i, accuracy in enumerate(own)
                    ]
    return pd.DataFrame(rows)


def runs_of(everyone: pd.DataFrame) -> pd.DataFrame:
    settings = everyone.drop_duplicates("run").set_index("run")["setting"]
    runs = per_run(everyone, 0.1)
    return runs.assign(setting=runs["run"].map(settings))


def difference(method: str, low: float, high: float, t_holm: float = 0.04) -> Difference:
    interval = Interval((low + high) / 2, low, high, 5)
    return Difference(method, interval, 0.1, 0.2, relation(Pair(0, 1, interval, 0.1, 0.2, t_holm, 1.0)), "")


def table(**gains: float) -> pd.DataFrame:
    rows = [
        {"method": name, "tuned": 0.9, "gain": gain, "tail": "Not below what chance alone explains", "samples": 1000}
        for name, gain in gains.items()
    ]
    return pd.DataFrame(rows)


FIVE = {
    one.method: one
    for one in (
        difference("LG-FedAvg", -0.002, 0.002),
        difference("Ditto", -0.012, 0.017),
        difference("CGPFL", -0.005, 0.010),
        difference("FedAvg", -0.054, -0.014),
        difference("Best", 0.01, 0.03),
        difference("IFCA", 0.001, 0.023, t_holm=0.06),
    )
}


def test_differences_are_paired_by_split_and_need_three() -> None:
    everyone = clients(A=[0.9, 0.9], LocalTrain=[0.8, 0.8])
    found = numbers.differences(runs_of(everyone), everyone, "LocalTrain")
    assert list(found) == ["A"] and found["A"].relation == "ahead"
    interval = found["A"].interval
    assert (interval.mean, interval.low, interval.high, interval.n) == pytest.approx((0.1, 0.1, 0.1, 3))
    assert (found["A"].p, found["A"].holm, found["A"].words) == (0.25, 0.25, "Ahead by 10.0 points")
    two = clients(splits=2, A=[0.9], LocalTrain=[0.8])
    assert numbers.differences(runs_of(two), two, "LocalTrain")["A"].relation == "unclear"
    assert numbers.differences(runs_of(two), two, "gone") == {}


def test_with_one_split_the_interval_is_about_its_clients() -> None:
    for seeds in (2, 20):
        everyone = clients(splits=1, seeds=seeds, A=[0.95, 0.9, 0.85, 0.9], LocalTrain=[0.8] * 4)
        found = numbers.differences(runs_of(everyone), everyone, "LocalTrain")["A"]
        ends = (found.interval.low, found.interval.high)
        assert found.interval.mean == pytest.approx(0.1) and ends == pytest.approx((0.0625, 0.1375), abs=0.006)
    assert (found.relation, found.words) == ("unclear", "One split: interval for these clients only")


def test_with_one_split_and_an_attack_each_seed_has_its_benign_clients() -> None:
    everyone = clients(splits=1, seeds=2, A=[0.95, 0.9, 0.85, 0.9], LocalTrain=[0.8] * 4)
    malicious = (everyone["seed"] == 100) & (everyone["client"] == 0) | (everyone["seed"] == 101) & (
        everyone["client"] == 2
    )
    benign = everyone[~malicious]
    interval = numbers.differences(runs_of(benign), benign, "LocalTrain")["A"].interval
    assert interval.mean == pytest.approx((0.25 / 3 + 0.35 / 3) / 2) and 0.05 <= interval.low < interval.mean
    alone = everyone[(everyone["seed"] == 100) & (everyone["client"] < 2)]
    alone = alone[(alone["client"] == 0) == (alone["method"] == "A")]  # no client in common
    nothing = numbers.differences(runs_of(alone), alone, "LocalTrain")
    assert nothing["A"].interval.n == 0
    found = finding.sentences(table(A=0.0, LocalTrain=0.0), nothing, "LocalTrain", 1, "Digits")
    assert not any("for these clients" in one.lower() and "differs" in one for one in found)


def test_all_words_about_a_difference_have_the_decimals_that_the_tuned_runs_support() -> None:
    everyone = clients(splits=3, seeds=1, A=[0.9, 0.9], LocalTrain=[0.8, 0.8])  # 300 samples of each setting
    runs = runs_of(everyone)
    study = cast(Study, SimpleNamespace(final_runs=runs, reference="LocalTrain"))
    (row,) = ranks.pairs(study, ranks.REFERENCE).to_dict("records")
    own = numbers.differences(runs, everyone, "LocalTrain")
    assert row["verdict"] == own["A"].words == "Ahead by 10.0 points"
    few = table(A=0.1).assign(samples=100)
    assert finding.title(few, own, "LocalTrain", 3) == "A leads LocalTrain by 10 points"


def test_the_chance_floor_is_that_of_the_mean_over_splits() -> None:
    one, ten = (numbers.floors_of(clients(splits=splits, A=[0.95] * 20)).iloc[0] for splits in (1, 10))
    assert ten["floor_low"] < ten["floor"] < ten["floor_high"]
    width = (one["floor_high"] - one["floor_low"]) / (ten["floor_high"] - ten["floor_low"])
    assert 1.5 < width < sqrt(10)  # splits of a lower accuracy spread more


def test_hurt_and_helped_clients_are_averaged_over_seeds_and_counted_in_each_split() -> None:
    found = numbers.hurt_against(clients(A=[0.9, 0.7, 0.8], LocalTrain=[0.8] * 3), "A", "LocalTrain")
    assert found is not None and (found.hurt, found.helped, found.clients) == (3, 3, 9)
    assert numbers.hurt_against(clients(A=[0.9]), "A", "LocalTrain") is None


def test_probabilities_need_five_splits_and_a_reference() -> None:
    def of(splits: int, **accuracies: list[float]) -> pd.DataFrame:
        everyone = clients(splits=splits, **accuracies)
        study = SimpleNamespace(final_runs=runs_of(everyone), reference="LocalTrain")
        return ranks.posterior(cast(Study, study), 0.005)

    found = of(5, A=[0.9], B=[0.8], LocalTrain=[0.8])
    assert found["Method"].tolist() == ["A", "B"]
    assert found["Better"].tolist()[0] == "99.9 %" and found["Equal"].tolist()[1] == "100.0 %"
    assert of(4, A=[0.9], LocalTrain=[0.8]).empty and of(5, A=[0.9], B=[0.8]).empty


def test_the_title_names_methods_that_lead_the_reference() -> None:
    rows = table(A=0.1)
    assert finding.title(rows, {"B": difference("B", 0.01, 0.03)}, "LocalTrain", 5) == (
        "B leads LocalTrain by 2.0 points"
    )
    assert (
        finding.title(rows, {"B": difference("B", -0.01, 0.03)}, "LocalTrain", 5)
        == "No method is clearly ahead of LocalTrain"
    )
    two = {name: difference(name, 0.01, 0.03) for name in "BC"}
    assert finding.title(rows, two, "LocalTrain", 5) == "B and C lead LocalTrain"
    assert finding.title(rows, two, "LocalTrain", 2) == "2 splits are too few to say which methods lead LocalTrain"
    assert finding.title(rows, {}, None, 5) == "Only A has results with its chosen settings"
    rows = table(A=0.1, B=0.1)
    assert finding.title(rows, {}, None, 5).endswith("but there is no reference to compare with")
    assert finding.title(rows, {}, "LocalTrain", 5) == (
        "A has the highest tuned accuracy, but LocalTrain has no results to compare with"
    )


def test_the_sentences_sort_methods_by_what_their_interval_allows() -> None:
    rows = table(CGPFL=0.42, LocalTrain=0.015)
    assert finding.sentences(rows, FIVE, "LocalTrain", 5, "Digits · 20 clients") == [
        "Best (+2.0 ± 1.0 points) leads LocalTrain.",
        "LG-FedAvg is level with LocalTrain, within half a point.",
        "IFCA is 1.2 ± 1.1 points higher than LocalTrain, but with 6 comparisons this may be chance.",
        "Ditto and CGPFL are not clearly different from LocalTrain (between −1.2 and +1.7 points).",
        "FedAvg (−3.4 ± 2.0 points) is behind LocalTrain.",
        "Tuning raised CGPFL by 42.0 points and LocalTrain by 1.5 points.",
        "Under every method, chance alone could explain how low the lowest 10 % of the clients are.",
        "This generalizes only to new splits of this data set, divided in this way (Digits · 20 clients).",
    ]


def test_differences_that_may_be_chance_are_told_apart_from_clear_ones() -> None:
    two = {name: difference(name, -0.03, -0.01, t_holm=0.06) for name in ("IFCA", "CFL")}
    one = {"IFCA": two["IFCA"], "Best": difference("Best", 0.01, 0.03)}
    assert finding.sentences(table(IFCA=0.0), one, "LocalTrain", 5, "Digits")[1] == (
        "IFCA is 2.0 ± 1.0 points lower than LocalTrain, but with 2 comparisons this may be chance."
    )
    assert finding.sentences(table(IFCA=0.0), two, "LocalTrain", 5, "Digits")[0] == (
        "IFCA (−2.0 ± 1.0 points) and CFL (−2.0 ± 1.0 points) differ from LocalTrain, but with 2 comparisons this may "
        "be chance."
    )


def test_methods_with_one_split_or_none_in_common_have_no_interval() -> None:
    apart = {
        "Ditto": difference("Ditto", -0.012, 0.017),
        "CFL": Difference("CFL", Interval(0.05, -inf, inf, 1), 1.0, 1.0, "unclear", ""),
        "IFCA": Difference("IFCA", Interval(np.nan, -inf, inf, 0), 1.0, 1.0, "unclear", ""),
    }
    found = finding.sentences(table(Ditto=0.0), apart, "LocalTrain", 5, "Digits")
    assert found[:3] == [
        "Ditto is not clearly different from LocalTrain (between −1.2 and +1.7 points).",
        "CFL has only one split in common with LocalTrain.",
        "IFCA has no split in common with LocalTrain.",
    ]
    assert not [sentence for sentence in found if "inf" in sentence]


def test_an_interval_without_ends_has_unknown_ones() -> None:
    assert numbers.known_ends(Interval(0.1, 0.05, 0.15, 3)) == (0.05, 0.15)
    assert np.isnan(numbers.known_ends(Interval(0.1, -inf, inf, 1))).all()


def test_one_split_speaks_of_its_clients_only() -> None:
    own = Difference(
        "A", Interval(0.02, 0.01, 0.03, 20), 1.0, 1.0, "unclear", "One split: interval for these clients only"
    )
    found = finding.sentences(table(A=0.0), {"A": own}, "LocalTrain", 1, "Digits")
    assert found[:2] == [
        "One split: what follows is about these clients, not about the methods.",
        "A (+2.0 ± 1.0 points) is above LocalTrain for these clients.",
    ]
    assert found[-1].startswith("This generalizes only to new trainings of these clients")


def test_tails_below_chance_are_named() -> None:
    rows = table(A=0.1, B=0.1)
    rows.loc[0, "tail"] = "Below what chance alone explains"
    found = finding.sentences(rows, {}, None, 3, "Digits")
    assert found[1] == "Under A, the lowest 10 % of the clients are lower than chance alone explains."
    rows["tail"] = "Below what chance alone explains"
    assert finding.sentences(rows, {}, None, 3, "Digits")[1].startswith("Under every method, the lowest 10 %")
    rows.loc[1, "tail"] = ""
    assert finding.sentences(rows, {}, None, 3, "Digits")[1].startswith("Under every method with results, the lowest")
    rows["tail"] = ""
    assert not any("lowest" in one for one in finding.sentences(rows, {}, None, 3, "Digits"))


def test_the_procedure_counts_methods_settings_seeds_and_splits() -> None:
    assert finding.procedure(10, 16, 3, 5, "mean validation accuracy") == (
        "10 methods, 16 settings each, chosen by mean validation accuracy, retrained with 3 fresh seeds on 5 splits."
    )
    assert finding.procedure(2, 1, 1, 1, "loss") == "2 methods, defaults only, trained with 1 seed on 1 split."


def test_accuracy_at_equal_cost_is_not_yet_known_where_the_first_round_is_too_expensive() -> None:
    per_round = {1: 1e6, 2: 10e6, 3: 0.0}
    rows = [
        {"run": run, "round": at, "name": name, "value": value}
        for run, sent in per_round.items()
        for at in (1, 2, 3, 4)
        for name, value in (("bytes_up", sent / 2), ("bytes_down", sent / 2), ("personalized.mean", at / 10))
    ]
    runs = pd.DataFrame({"run": [1, 2, 3], "method": ["cheap", "dear", "alone"], "split": 0})
    found = equal_cost.data(pd.DataFrame(rows), runs, "megabytes")
    by_method = found.pivot(index="method", columns="budget", values="accuracy")
    assert by_method.columns.tolist() == [1, 2, 4]
    assert by_method.loc["cheap"].tolist() == pytest.approx([0.1, 0.2, 0.4])
    assert by_method.loc["alone"].tolist() == pytest.approx([0.4] * 3) and by_method.loc["dear"].isna().all()
    shown = equal_cost.as_shown(found, "megabytes")
    assert list(shown.columns) == ["Method", "at 4 MB", "at 2 MB", "at 1 MB"]
    assert shown.set_index("Method").loc["dear"].tolist() == ["not yet"] * 3


def test_accuracy_at_equal_cost_is_over_the_splits_of_all_methods() -> None:
    rows = [
        {"run": run, "round": 1, "name": name, "value": value}
        for run, accuracy in {1: 0.9, 2: 0.7, 3: 0.2, 4: 0.8}.items()
        for name, value in (("bytes_up", 1e6), ("personalized.mean", accuracy))
    ]
    runs = pd.DataFrame({"run": [1, 2, 3, 4], "method": ["A", "A", "A", "B"], "split": [0, 0, 1, 0]})
    found = equal_cost.data(pd.DataFrame(rows), runs, "megabytes")
    whole = found[found["budget"] == 1].set_index("method")["accuracy"]
    assert whole.to_dict() == pytest.approx({"A": 0.8, "B": 0.8}) and equal_cost.shared_splits(runs) == [0]
    apart = runs.assign(split=[0, 0, 0, 1])
    assert equal_cost.data(pd.DataFrame(rows), apart, "megabytes").empty and equal_cost.shared_splits(apart) == []


def test_the_caption_of_equal_cost_names_the_splits_of_all_methods() -> None:
    runs = runs_of(clients(A=[0.9], B=[0.8]))
    study = SimpleNamespace(final_runs=runs, splits=(0, 1, 2))
    assert "Only split" not in equal_cost.about(cast(Study, study), "megabytes")
    study.final_runs = runs[(runs["method"] == "A") | (runs["split"] == 1)]
    caption = equal_cost.about(cast(Study, study), "megabytes")
    assert caption.endswith(" Only split 1: the others lack results of some methods.")


def test_accuracy_at_equal_cost_averages_seeds_and_then_splits() -> None:
    rows = [
        {"run": run, "round": 1, "name": name, "value": value}
        for run, accuracy in {1: 0.9, 2: 0.7, 3: 0.2}.items()
        for name, value in (("bytes_up", 1e6), ("personalized.mean", accuracy))
    ]
    runs = pd.DataFrame({"run": [1, 2, 3], "method": "A", "split": [0, 0, 1]})
    found = equal_cost.data(pd.DataFrame(rows), runs, "megabytes")
    assert found["accuracy"].iloc[0] == pytest.approx((0.8 + 0.2) / 2)


def test_the_cheapest_method_has_its_final_accuracy_at_equal_cost() -> None:
    rows = [
        {"run": run, "round": at, "name": name, "value": value}
        for run, sent in {1: 1e6, 2: 1.1e6}.items()
        for at, accuracy in ((1, 0.5), (2, 0.9))
        for name, value in (("bytes_up", sent), ("personalized.mean", accuracy))
    ]
    runs = pd.DataFrame({"run": [1, 2], "method": "A", "split": [0, 0]})
    found = equal_cost.data(pd.DataFrame(rows), runs, "megabytes").set_index("budget")["accuracy"]
    assert found.max() == found[2.2] == pytest.approx(0.9)


def test_costs_are_averaged_over_seeds_and_then_splits() -> None:
    everyone = clients(A=[0.9], splits=2)
    runs = runs_of(everyone).assign(gradient_evaluations=100.0, megabytes=3.0)
    runs = runs[~((runs["setting"] == "tuned") & (runs["split"] == 1) & (runs["seed"] == 101))]
    runs.loc[runs["split"] == 1, ["gradient_evaluations", "megabytes"]] = 400.0, 9.0
    study = SimpleNamespace(
        final_runs=runs,
        final_clients=everyone,
        reference=None,
        trial_values=pd.DataFrame({"method": [], "gradients": []}),
        entries=[],
        of_finals=lambda _: everyone.iloc[:0],
        keep=lambda _, compute: compute(),
    )
    found = numbers.table(cast(Study, study)).iloc[0]
    assert found["gradients"] == 250 and found["megabytes"] == 6


def test_the_latex_table_has_intervals_and_dashes_for_the_reference() -> None:
    row = {
        "method": "FedAvg & co",
        "default": 0.855,
        "tuned": 0.919,
        "difference": -0.034,
        "low": -0.054,
        "high": -0.014,
        "lowest": 0.8,
        "floor": 0.81,
        "hurt": 18.0,
        "helped": 0.0,
        "megabytes": 1.234,
        "samples": 5000,
        "tail_samples": 500,
    }
    own = row | {"method": "LocalTrain", "difference": np.nan, "low": -inf, "hurt": np.nan, "helped": np.nan}
    text = finals.to_latex(pd.DataFrame([row, own]), "LocalTrain", "Digits, 5 splits")
    assert r"FedAvg \& co & $85.5$ & $91.9$ & $-3.40$ $[-5.4, -1.4]$ & $80.0$ & $81.0$ & $18$ & $0$ & $1.23$" in text
    assert r"LocalTrain & $85.5$ & $91.9$ & -- & $80.0$ & $81.0$ & -- & -- & $1.23$" in text
    assert r"$-$ LocalTrain" in text and r"\caption{Digits, 5 splits}" in text
    untuned = own | {"tuned": np.nan, "lowest": np.nan, "floor": np.nan, "megabytes": np.nan}
    text = finals.to_latex(pd.DataFrame([untuned]), "LocalTrain", "")
    assert "LocalTrain & $85.5$ & " + "-- & " * 6 + "-- " in text and "nan" not in text


def test_the_heading_counts_methods_below_the_reference() -> None:
    runs = runs_of(clients(A=[0.9], B=[0.7], LocalTrain=[0.8]))
    assert finals.heading(runs, "LocalTrain") == "With defaults, 1 of 2 methods are clearly below LocalTrain; tuned, 1"
    assert finals.heading(runs, None) == finals.heading(runs, "gone") == "Final runs"


def test_the_heading_compares_the_splits_that_both_have() -> None:
    runs = runs_of(clients(A=[0.9], B=[0.79], C=[0.79], LocalTrain=[0.8]))
    hard = (runs["method"] == "B") & (runs["setting"] == "tuned") & (runs["split"] > 0)  # its mean is the highest
    absent = (runs["method"] == "C") & (runs["setting"] == "tuned")
    found = finals.heading(runs[~hard & ~absent], "LocalTrain")
    assert found == "With defaults, 2 of 3 methods are clearly below LocalTrain; tuned, 0 of 2"  # one shared split
    assert finals.heading(runs[runs["method"].isin(["C", "LocalTrain"]) & ~absent], "LocalTrain") == "Final runs"


def test_the_heading_counts_only_clear_differences_unless_there_are_too_few_splits() -> None:
    runs = runs_of(clients(A=[0.7], B=[0.79], LocalTrain=[0.8]))
    is_uneven = (runs["method"] == "B") & (runs["setting"] == "tuned") & (runs["split"] == 0)
    runs.loc[is_uneven, "mean"] += 0.02
    assert finals.heading(runs, "LocalTrain") == "With defaults, 2 of 2 methods are clearly below LocalTrain; tuned, 1"
    two = runs[runs["split"] > 0]
    assert (
        finals.heading(two, "LocalTrain") == "With defaults, 2 of 2 methods are below LocalTrain on average; tuned, 2"
    )
