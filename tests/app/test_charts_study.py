"""The charts of a study: their numbers, and each drawn once."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from app.charts import best_so_far, critical_differences, parallel_trials, sensitivity, tuned
from app.charts.plot.method_styles import Look
from app.charts.plot.palette import theme
from app.charts.tuning_axes import Axis, settings_in_words

LR = Axis("training.lr", "η", 0.001, 0.1, is_log=True)
LAM = Axis("lam", "λ", 0.0, 10.0)
HOW = Axis("how", "how", choices=("a", "b"))


def trials(values: list[float], chosen: int | None = None, **settings: list[Any]) -> pd.DataFrame:
    """Of one method in one split; trial 0 has the defaults."""
    names = {"lr": "training.lr"}
    given = [{names.get(k, k): own[i] for k, own in settings.items()} for i in range(len(values))]
    return pd.DataFrame(
        {
            "method": "Ditto",
            "algorithm": "ditto",
            "split": 0,
            "trial": range(len(values)),
            "value": values,
            "gradients": 100.0,
            "is_default": [i == 0 for i in range(len(values))],
            "is_chosen": [i == chosen for i in range(len(values))],
            "settings": given,
        }
    )


FOUR = trials([0.90, 0.80, 0.95, np.nan], chosen=2, lr=[0.01, 0.001, 0.03, 0.1], lam=[1.0, 5.0, 0.0, 10.0])


def finals(**means: tuple[list[float], list[float]]) -> pd.DataFrame:
    """``A=(defaults by split, tuned by split)``; the lowest clients are 10 points below, two seeds 2 points apart."""
    rows = [
        {
            "method": method,
            "algorithm": "local_train" if method == "Alone" else method.lower(),
            "split": split,
            "seed": seed,
            "setting": setting,
            "mean": mean + 0.02 * seed,
            "lowest": mean + 0.02 * seed - 0.1,
            "samples": 500,
            "tail_samples": 50,
        }
        for method, settings in means.items()
        for setting, own in zip(("default", "tuned"), settings, strict=True)
        for split, mean in enumerate(own)
        for seed in (0, 1)
    ]
    return pd.DataFrame(rows)


FINALS = finals(A=([0.5, 0.6], [0.8, 0.9]), Alone=([0.7, 0.8], [0.75, 0.85]))
FLOORS = pd.DataFrame({"method": ["A", "Alone"], "floor": [0.7, 0.72], "floor_low": 0.65, "floor_high": 0.75})


def test_the_best_so_far_is_the_expected_best_averaged_over_splits() -> None:
    both = pd.concat([trials([0.1, 0.2, 0.3, 0.4]), trials([0.2, 0.3, 0.4, 0.5]).assign(split=1)])
    df = best_so_far.data(both)
    assert df["best"][:2].tolist() == pytest.approx([0.30, 0.3625]) and df["x"].tolist() == [1, 2, 3, 4]
    assert best_so_far.data(both, "gradients")["x"].tolist() == [100, 200, 300, 400]


def test_trials_that_were_drawn_by_results_count_in_their_order() -> None:
    best = best_so_far.data(trials([float("nan"), 0.3, 0.2, 0.4]), in_order=True)["best"]
    assert best.tolist() == [0.2, 0.3, 0.3, 0.4]


def test_the_best_so_far_ends_with_the_shortest_split() -> None:
    both = pd.concat([trials([0.1, 0.2, 0.3]), trials([0.2, 0.3]).assign(split=1)])
    assert best_so_far.data(both)["trials"].tolist() == [1, 2]


def test_late_gains_say_whether_more_trials_would_help() -> None:
    flat, rising = trials([0.9] * 8), trials([0.5, *[0.4] * 6, 0.9]).assign(method="CFL", algorithm="cfl")
    enough, few = best_so_far.data(flat), best_so_far.data(pd.concat([flat, rising]))
    assert best_so_far.late_gains(few).index.tolist() == ["CFL", "Ditto"]
    assert best_so_far.finding(enough) == (
        "The last 4 of 8 trials added less than 0.05 points: more trials would change little."
    )
    assert best_so_far.finding(few).endswith("(CFL): for 1 method more trials may find better settings.")
    assert best_so_far.finding(best_so_far.data(trials([0.9]))) == "With one trial per method nothing was tuned."


def test_the_best_so_far_has_a_line_per_method() -> None:
    fig = best_so_far.figure(best_so_far.data(FOUR, "gradients"), "gradients")
    (line,) = fig.data
    assert line.x[-1] == 400 and fig.layout.annotations[0].text == "Ditto"
    assert fig.layout.xaxis.title.text == "gradient evaluations of the trials"


def test_tuning_is_averaged_over_seeds_and_then_splits() -> None:
    df = tuned.data(FINALS, FLOORS)
    assert df["method"].tolist() == ["A", "Alone"]
    row = df.iloc[0]
    assert row[["default", "tuned", "default_lowest", "tuned_lowest"]].tolist() == pytest.approx(
        [0.56, 0.86, 0.46, 0.76]
    )
    assert (row["floor"], row["samples"]) == (0.7, 2000)  # of the tuned runs


@pytest.mark.parametrize("setting", ["default", "tuned"])
def test_final_runs_of_one_setting_have_no_gain_yet(setting: str) -> None:
    df = tuned.data(FINALS[FINALS["setting"] == setting], FLOORS)
    other = "tuned" if setting == "default" else "default"
    assert df[setting].notna().all() and df[[other, f"{other}_lowest"]].isna().all(axis=None)
    assert tuned.finding(df) == "No method has results with its defaults and its chosen settings on the same split."
    assert len(tuned.figure(df, 0.1, tuned.band(FINALS)).data) > 0
    both = pd.concat([FINALS[FINALS["setting"] == setting], finals(B=([0.5], [0.6]))])
    assert tuned.finding(tuned.data(both, FLOORS)) == "Tuning helped B by 10.0 points."


def test_the_gain_of_tuning_is_over_the_splits_that_have_both_settings() -> None:
    same = finals(Ditto=([0.9, 0.9, 0.6], [0.9, 0.9, 0.6]), Alone=([0.9, 0.9, 0.6], [0.92, 0.92, 0.62]))
    is_missing = (same["method"] == "Ditto") & (same["setting"] == "tuned") & (same["split"] == 2)
    df = tuned.data(same[~is_missing], FLOORS).set_index("method")
    assert df["gain"].to_dict() == pytest.approx({"Ditto": 0, "Alone": 0.02})
    assert df.loc["Ditto", "tuned"] - df.loc["Ditto", "default"] == pytest.approx(0.1)
    found = tuned.finding(df.reset_index())
    assert found == "Tuning helped Alone most, by 2.0 points, and Ditto least, by less than 0.05 points."


def test_the_finding_says_what_tuning_was_worth() -> None:
    assert tuned.finding(tuned.data(FINALS, FLOORS)) == (
        "Tuning helped A most, by 30.0 points, and Alone least, by 5.0 points."
    )
    worse = finals(A=([0.5], [0.8]), B=([0.5], [0.48]))
    assert tuned.finding(tuned.data(worse, FLOORS)) == "Tuning helped A most, by 30.0 points; B lost 2.0 points."
    assert tuned.finding(tuned.data(finals(A=([0.5], [0.5])), FLOORS)) == "No method gained from tuning."


def test_the_band_is_the_t_interval_of_the_tuned_local_training() -> None:
    low, high = tuned.band(FINALS) or (0, 0)
    assert ((low + high) / 2, high - low) == pytest.approx((0.81, 2 * 12.7062 * 0.05), rel=1e-4)
    assert tuned.band(finals(Alone=([0.7], [0.75]))) is None and tuned.band(finals(A=([0.7] * 3, [0.7] * 3))) is None


def test_the_dumbbell_of_tuning_marks_defaults_choice_and_chance() -> None:
    fig = tuned.figure(tuned.data(FINALS, FLOORS), 0.1, (0.8, 0.82))
    _, rings, filled, _, tail_rings, tails, floor = fig.data
    assert list(rings.x) == pytest.approx([56, 76]) and list(filled.x) == pytest.approx([86, 81])
    assert rings.marker.symbol[0].endswith("-open") and list(tail_rings.y) == pytest.approx([0.3, 1.3])
    assert [x for x in floor.x if x] == pytest.approx([70, 70, 72, 72]) and "by chance alone 70.0 %" in floor.hovertext[
        0
    ]
    assert fig.layout.shapes[0].x0 == 80 and "lowest 10 %, tuned" in tails.hovertext[0]
    assert "band: 95 % interval" in tuned.note(0.1, 20, True) and "band" not in tuned.note(0.1, 20, False)
    assert "lowest 10 % of 16 benign clients" in tuned.note(0.1, 16, False, are_benign=True)


def test_an_axis_places_numbers_words_and_defaults_outside_the_range() -> None:
    assert [LR.place(x) for x in (0.001, 0.01, 0.1)] == pytest.approx([0, 0.5, 1])
    assert LAM.place(-1.0) == -0.1 and np.isnan(LAM.place("auto")) and np.isnan(LAM.place(True))
    assert HOW.place("b") == 0.75 and np.isnan(HOW.place("c")) and HOW.ends == ("a", "b")
    assert Axis("K", "K", 2, 2).place(2) == 0.5
    assert [LAM.is_at_the_edge(x) for x in (0.4, 0.6, 9.6)] == [True, False, True]
    assert settings_in_words([LR, HOW], {"training.lr": 0.01234, "how": "a"}) == "η = 0.0123, how = a"


def test_parallel_trials_have_a_row_per_trial_and_parameter() -> None:
    df = parallel_trials.data(FOUR, [LR, LAM])
    assert len(df) == 8 and df["symbol"].tolist() == ["η", "λ"] * 4
    assert df["place"].tolist() == pytest.approx([0.5, 0.1, 0, 0.5, np.log(30) / np.log(100), 0, 1, 1])


def test_the_chosen_setting_and_diverged_trials_are_reported() -> None:
    assert parallel_trials.finding(FOUR, [LR, LAM], "Ditto") == (
        "Ditto: η = 0.03, λ = 0 was chosen of 4 settings, at 95.0 % on validation. λ: at the edge of the range; "
        "widen it. 1 setting diverged or failed."
    )
    default = trials([0.9, 0.8], chosen=0, lr=[0.05, 0.1])
    assert "the default settings were chosen of 2 settings" in parallel_trials.finding(default, [LR], "Ditto")
    assert "no setting is chosen yet, of 2 trials" in parallel_trials.finding(trials([0.9, 0.8]), [LR], "Ditto")


def test_parallel_trials_draw_the_choice_thick_and_the_default_dashed() -> None:
    fig = parallel_trials.figure(parallel_trials.data(FOUR, [LR, LAM]), [LR, LAM])
    default, chosen = fig.data[-2:]
    assert default.line.dash == "dash" and chosen.line.width > 3 and chosen.line.color == theme().accent
    assert chosen.y[-2] == 1 and list(fig.layout.xaxis.ticktext) == ["η", "λ", "validation"]
    assert fig.data[0].hovertext[0] == "trial 1<br>η = 0.001<br>λ = 5<br>80.0 %"
    below, above = sorted({note.y for note in fig.layout.annotations})
    assert all(below < line.y0 and line.y1 < above for line in fig.layout.shapes)  # no axis crosses its labels


def test_sensitivity_is_sorted_and_counts_settings_near_the_best() -> None:
    df = sensitivity.data(trials([0.94, 0.80, 0.95, 0.93], chosen=2, lam=[1, 5.0, 0.5, "auto"]), LAM)
    assert df["setting"].tolist() == [0.5, 1, 5] and df["near"].tolist() == [True, True, False]


def test_the_rank_correlation_is_spearmans() -> None:
    rising = trials([0.1, 0.2, 0.4, 0.3], lam=[1.0, 2, 3, 4])
    assert sensitivity.spearman(sensitivity.data(rising, LAM)) == pytest.approx(0.8)
    assert np.isnan(sensitivity.spearman(sensitivity.data(trials([0.1, 0.2, 0.3], lam=[1, 2, 3]), LAM)))
    assert np.isnan(sensitivity.spearman(sensitivity.data(trials([0.5] * 5, lam=[1, 2, 3, 4, 5]), LAM)))
    words = trials([0.1, 0.2, 0.3, 0.4], how=["a", "b", "a", "b"])
    assert np.isnan(sensitivity.spearman(sensitivity.data(words, HOW)))


def test_the_finding_of_sensitivity_has_correlation_share_and_gain() -> None:
    df = sensitivity.data(trials([0.90, 0.91, 0.92, 0.95], chosen=3, lam=[1.0, 2, 3, 4]), LAM)
    assert sensitivity.finding(df, "λ", "Ditto") == (
        "Ditto: Spearman's ρ of λ and accuracy is +1.00; 1 of 4 settings is within a point of the best; tuning gained "
        "5.0 points over the defaults on validation."
    )
    lost = sensitivity.data(trials([np.nan, np.nan], lam=[1, 2]), LAM)
    assert sensitivity.finding(lost, "λ", "Ditto") == "Ditto: no trial has a validation accuracy."


@pytest.mark.parametrize(("axis", "name"), [(LR, "lr"), (LAM, "lam"), (HOW, "how")])
def test_sensitivity_has_a_dot_per_trial_with_a_value(axis: Axis, name: str) -> None:
    settings: list[Any] = ["a", "b", "a", "b"] if name == "how" else [0.01, 0.001, 0.03, 0.1]
    rows = trials([0.9, 0.8, 0.95, np.nan], chosen=2, **{name: settings})
    (dots,) = sensitivity.figure(sensitivity.data(rows, axis), axis, Look("#0072B2", "solid", "circle")).data
    assert len(dots.x) == 3 and sorted(dots.marker.symbol) == ["circle", "circle-open", "star"]


def ranked(*rows: list[float]) -> critical_differences.Ranked | None:
    frame = pd.DataFrame(
        [
            {"method": f"m{i}", "algorithm": f"m{i}", "split": split, "seed": 0, "mean": mean}
            for split, own in enumerate(rows)
            for i, mean in enumerate(own)
        ]
    )
    return critical_differences.data(frame)


def test_ranks_over_splits_are_sorted_and_grouped() -> None:
    found = ranked(*[[0.1, 0.8, 0.9 - 0.2 * (i % 2)] for i in range(12)])
    assert found is not None and found.rows["method"].tolist()[-1] == "m0"
    assert found.rows["rank"].tolist() == pytest.approx([1.5, 1.5, 3])
    assert found.groups == ((0, 1),) and found.differs
    assert critical_differences.finding(found).startswith("The mean ranks over 12 splits differ (Friedman's test by")
    fig = critical_differences.figure(found)
    assert [note.text for note in fig.layout.annotations] == ["m1 1.50", "m2 1.50", "m0 3.00", "CD = 0.96"]
    assert sum(trace.line.width == 4 for trace in fig.data) == 1


def test_ranks_that_may_differ_by_chance_have_no_groups() -> None:
    found = ranked([0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.2, 0.3, 0.1])
    assert found is not None and not found.differs and found.groups == ()
    assert critical_differences.finding(found).endswith("no methods are grouped.")
    assert "bars join" not in critical_differences.note(found)


def test_one_split_or_two_methods_have_no_diagram() -> None:
    assert ranked([0.1, 0.2, 0.3]) is None and ranked([0.1, 0.2], [0.3, 0.4]) is None
