"""The Study page: the finding, its panels, and what it shows before the final runs have ended."""

import html
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
import yaml

from app.actions.run_config import experiment_of_all
from app.charts.printed.sheet import problem
from app.data import column_heads, queries
from app.report.study import report
from app.study import (
    choosing,
    equal_cost,
    finals,
    finding,
    numbers,
    progress,
    protocol,
    ranks,
    settings,
    time_left,
    tuning,
)
from app.study.study import Study
from engine.config.schema import parse_experiment
from storage import Store
from tests.app.pages import open_page, words
from tests.app.samples import DIGITS, store_experiment
from tests.app.studies import STUDY, compute, queue_study

opened = partial(open_page, "study")


@pytest.fixture
def study(read_study_store: Store) -> Study:
    return choosing.study_of(read_study_store.experiments.get(1))


def test_without_a_study_the_page_says_how_to_start_one(empty_store: Store) -> None:
    text = words(opened())
    assert "There is no study yet" in text and "(/setup)" in text


@pytest.mark.slow
def test_a_finished_study_shows_its_finding_and_every_panel(read_study_store: Store) -> None:
    page = opened()
    text = words(page)
    assert "DIGITS · 6 CLIENTS · 3 CLASSES EACH" in text
    assert "3 methods, 2 settings each, chosen by mean validation accuracy, retrained with 1 fresh seed" in text
    assert "The test data was opened once, on " in text and "earlier run" not in text
    assert [header.value for header in page.header][1:] == [
        "How much did tuning help?",
        "Which settings were tried, and which were chosen?",
        "Which methods differ?",
        "What do they reach at the same cost?",
        "Download the chosen settings",
    ]
    assert {frame.value.columns[0] for frame in page.dataframe} == {"Method"}


def test_the_table_of_finals_agrees_with_the_stored_runs(study: Study) -> None:
    table = numbers.table(study).set_index("method")
    assert set(table.index) == {"LocalTrain", "FedAvg", "Ditto"} and table["tuned"].is_monotonic_decreasing
    for entry in study.entries:
        means = {}
        for setting in ("default", "tuned"):
            own = study.final_clients
            own = own[(own["method"] == entry.name) & (own["setting"] == setting)]
            means[setting] = own.groupby("run")["accuracy"].mean().mean()
        assert (table.loc[entry.name, "default"], table.loc[entry.name, "tuned"]) == pytest.approx(
            (means["default"], means["tuned"])
        )
    assert table["clients"].dropna().tolist() == [18, 18] and table.loc["LocalTrain", "hurt"] != 0
    assert table.loc["LocalTrain", "megabytes"] == 0 and table.loc["FedAvg", "megabytes"] > 0
    assert (table["tuning_gradients"] == 6 * table["gradients"]).all()  # two trials on three splits


def test_the_choice_is_the_trial_with_the_highest_value(study: Study) -> None:
    values = study.trial_values
    assert len(values) == 18 and values["value"].notna().all()
    best = values.loc[values.groupby(["method", "split"])["value"].idxmax()]
    chosen = values[values["is_chosen"]]
    assert chosen["value"].tolist() == pytest.approx(best.sort_index()["value"].tolist())
    for choice in study.progress.choices.values():
        own = values[(values["method"] == study.names[choice.entry].name) & (values["split"] == choice.split)]
        assert own.loc[own["is_chosen"], "value"].tolist() == pytest.approx([choice.value])


def test_tuned_parameters_are_axes_with_the_declared_ranges(study: Study) -> None:
    ditto = study.names["ditto"]
    assert [(axis.symbol, axis.low, axis.high, axis.is_log) for axis in study.axes(ditto)] == [
        ("η", 0.001, 0.5, True),
        ("λ", 0.01, 10, True),
    ]


@pytest.mark.slow
def test_choices_of_the_page_are_in_the_address(read_study_store: Store) -> None:
    page = opened(method="ditto", split="2", parameter="lam", family="all", budget="gradients")
    text = words(page)
    assert "Validation accuracy by λ" in text and "Ditto: " in text
    assert "all 3 pairs" in text


def test_with_three_splits_no_pair_can_be_significant(study: Study) -> None:
    rows = ranks.pairs(study, "reference")
    assert len(rows) == 2 and (rows["p"] >= 0.25).all() and set(rows["b"]) == {"LocalTrain"}
    assert ranks.about(study, rows, "reference").startswith(
        "3 splits are too few for Wilcoxon's test to be significant for any pair of 3 methods: it needs at least 7."
    )


def test_the_table_of_equal_cost_has_a_budget_for_the_cheapest_method(study: Study) -> None:
    rows = equal_cost.table(study, "megabytes")
    assert rows.groupby("method").size().tolist() == [3, 3, 3]
    assert rows.loc[rows["method"] == "LocalTrain", "accuracy"].notna().all()


@pytest.mark.slow
def test_the_chosen_settings_are_a_valid_configuration(read_study_store: Store, study: Study) -> None:
    page = opened()
    assert any(button.label == "Split 0, YAML" for button in page.get("download_button"))
    runs = settings.tuned_runs(study, 0)
    config = parse_experiment(yaml.safe_load(yaml.safe_dump(experiment_of_all(runs))))
    assert [own.digest for own in config.runs()] == [run.digest for run in runs]


def test_tests_on_the_same_data_before_are_counted(study_store: Store) -> None:
    study = choosing.study_of(study_store.experiments.get(1))
    partition = STUDY["partition"] | {"val_fraction": 0}  # test samples are chosen before validation samples
    earlier = STUDY | {"name": "before", "algorithms": ["fedprox"], "splits": [1], "seeds": [7], "partition": partition}
    del earlier["tune"]
    store_experiment(study_store, earlier)
    store_experiment(study_store, DIGITS | {"algorithms": ["fedavg"], "seeds": [0]})
    runs = queries.runs(include_archived=True)
    assert progress.seen_before(study, runs) == ""  # they started later
    before = [run for run in runs if run.experiment_id != 1]
    early = [type(run)(**(vars(run) | {"started_at": study.experiment.created_at})) for run in before]
    assert progress.seen_before(study, early) == "It was used before by 1 earlier run of other experiments."


def test_before_the_finals_the_page_counts_trials(empty_store: Store) -> None:
    queue_study(empty_store)
    text = words(opened())
    assert "Trials 0 of 18, final runs wait for 3 methods." in text
    assert "Which method is best if all are tuned equally?" in text


def test_a_study_without_results_has_no_figures(empty_store: Store) -> None:
    queue_study(empty_store)
    study = choosing.study_of(empty_store.experiments.get(1))
    assert tuning.figures(study, {}) == settings.figures(study, {}) == ranks.figures(study) == []


def test_a_study_without_completed_finals_has_the_figure_of_its_trials(study_store: Store, tmp_path: Path) -> None:
    ids = [run.id for run in choosing.study_of(study_store.experiments.get(1)).finals]
    with closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.execute(f"UPDATE runs SET status = 'failed' WHERE id IN ({','.join(map(str, ids))})")
        database.commit()
    study = choosing.study_of(study_store.experiments.get(1))
    assert [one.key for one in tuning.figures(study, {})] == ["best_so_far"] and ranks.figures(study) == []


def test_a_study_without_the_trials_of_a_method_opens_and_expects_no_end(empty_store: Store) -> None:
    queue_study(empty_store)
    with empty_store._database.write() as connection:
        connection.exec_driver_sql("DELETE FROM runs WHERE label = 'ditto'")
        connection.exec_driver_sql("UPDATE runs SET seconds_per_round = 1.0, status = 'done', round = 2 WHERE id = 1")
    assert "final runs wait for" in words(opened())
    assert time_left.left_s(choosing.study_of(empty_store.experiments.get(1))) is None


def test_cancelled_trials_are_named(empty_store: Store) -> None:
    queue_study(empty_store)
    runs = empty_store.queue.runs(newest_first=False)
    empty_store.queue.request([runs[0].id], "cancel")
    assert "1 trial of local_train was cancelled; retry it." in words(opened())


@pytest.mark.slow
def test_the_report_is_one_file_with_every_figure_and_table(study: Study) -> None:
    text = report(study, {"method": "ditto"}, "http://127.0.0.1:8501/study")
    for part in (finding.of(study).title, "Expected best of the first trials", "Critical difference diagram"):
        assert part in text
    assert "Validation accuracy by η" in text and "Accuracy at equal cost" in text
    assert text.count('class="plot"') == 5 and "http://127.0.0.1:8501/study?method=ditto&amp;experiment=1" in text


@pytest.mark.slow
def test_the_report_has_the_probabilities_of_the_page(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ranks.posterior_within(study, "0.25").empty
    monkeypatch.setattr(ranks, "MIN_BLOCKS", 3)
    text = report(study, {"rope": "1"}, "http://127.0.0.1:8501/study")
    assert "Bayesian signed-rank test over 3 splits against LocalTrain" in text and "equal within 1 points" in text
    assert '<th scope="col">Better</th>' in text


@pytest.mark.slow
def test_page_and_report_say_the_same_about_the_test_data(study_store: Store, tmp_path: Path) -> None:
    earlier = STUDY | {"name": "before", "algorithms": ["fedavg"], "splits": [1]}
    del earlier["tune"]
    store_experiment(study_store, earlier)
    with closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.execute("UPDATE runs SET started_at = '2020-01-01 00:00:00.000000' WHERE experiment_id = 2")
        database.commit()
        study = choosing.study_of(study_store.experiments.get(1))
        about = progress.test_data(study)
        assert about == f"{progress.opened(study)} It was used before by 1 earlier run of other experiments."
        assert about in words(opened(experiment=1)) and about in report(study, {}, "http://127.0.0.1:8501/study")
        database.execute("UPDATE experiments SET example = 1 WHERE id = 1")
        database.commit()
    shipped = progress.test_data(choosing.study_of(study_store.experiments.get(1)))
    assert shipped.startswith("Example results that ship with Fedscape. It was used before")


@pytest.mark.slow
def test_the_report_says_how_the_study_was_done(study: Study) -> None:
    steps = protocol.steps(study).set_index("Step")["How"]
    assert steps["Budget"] == "2 trials per method and split; the first trial has the defaults"
    assert steps["Seeds of the trials"] == "1000"
    rows = protocol.spaces(study)
    assert rows[rows["Method"] == "Ditto"].values.tolist() == [
        ["Ditto", "η", "0.001 to 0.5 (log)", "0.05"],
        ["Ditto", "λ", "0.01 to 10 (log)", "1"],
    ]
    text = report(study, {}, "http://127.0.0.1:8501/study")
    assert "0.01 to 10 (log)" in text and "torch version" in text
    raw = html.unescape(text.partition("<pre>")[2].partition("</pre>")[0])
    assert yaml.safe_load(raw) == study.experiment.config


def test_the_latex_table_compiles_from_the_numbers_of_the_page(study: Study) -> None:
    text = finals.to_latex(numbers.table(study), study.reference, finals.about(study))
    assert text.count(r" \\") == 4 and "LocalTrain" in text and r"\pm" not in text


def test_the_figures_of_the_page_have_findings(study: Study) -> None:
    shown = [*tuning.figures(study, {}), *settings.figures(study, {}), *ranks.figures(study)]
    assert [one.key for one in shown] == [
        "tuned",
        "best_so_far",
        "parallel_trials",
        "sensitivity",
        "critical_differences",
    ]
    assert all(one.alt and one.caption and len(one.table) for one in shown)
    assert [problem(one.figure) for one in shown] == [None] * 5  # of a figure for a paper
    assert shown[0].table["gain"].tolist() == numbers.table(study)["gain"].tolist()
    assert "Tuning gain, points" in column_heads.read(shown[0].table, shown[0].heads)


@pytest.mark.slow
def test_compare_shows_the_final_runs_as_methods_and_links_to_the_study(read_study_store: Store) -> None:
    page = open_page("compare", experiment=1)
    text = words(page)
    assert "The study" in text or page.get("page_link")
    assert set(page.dataframe[-1].value["method"]) <= {
        name + end for name in ("LocalTrain", "FedAvg", "Ditto") for end in ("", " defaults")
    }
    assert "has no personalized model" not in text and "trial" not in text
    assert "The study chose settings for" in text


@pytest.mark.slow
def test_with_one_trial_the_defaults_are_the_choice_and_are_run_once(empty_store: Store) -> None:
    queue_study(empty_store, STUDY | {"tune": {"trials": 1}, "splits": [5], "algorithms": ["local_train", "fedavg"]})
    compute(empty_store)
    study = choosing.study_of(empty_store.experiments.get(1))
    table = numbers.table(study)
    assert (
        len(study.finals) == 2 and (table["gain"] == 0).all() and table["tuned"].tolist() == table["default"].tolist()
    )
    text = words(opened())
    assert "1 split is too few to say which methods lead LocalTrain" in text
    assert "defaults only, trained with 1 seed" in text
    assert "One split: what follows is about these clients, not about the methods." in text
    assert table["lowest_low"].isna().all() and "inf" not in report(study, {}, "http://here").partition("<script")[0]
    assert "With one trial per method nothing was tuned." in text


@pytest.mark.slow
def test_final_runs_that_diverged_are_left_out_and_named(study_store: Store, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.execute("UPDATE runs SET status = 'diverged' WHERE label = 'ditto'")
        database.commit()
    study = choosing.study_of(study_store.experiments.get(1))
    assert numbers.table(study).set_index("method")["tuned"].isna().tolist() == [False, False, True]
    assert "3 final runs are left out because they did not complete: Ditto, split 0, seed 0, " in words(opened())


@pytest.mark.parametrize(("setting", "others"), [("tuned", "running"), ("tuned", "diverged"), ("default", "diverged")])
@pytest.mark.slow
def test_a_study_with_finals_of_one_setting_only_can_be_opened(
    study_store: Store, tmp_path: Path, setting: str, others: str
) -> None:
    finals = choosing.study_of(study_store.experiments.get(1)).final_runs
    ids = finals.loc[finals["setting"] != setting, "run"].unique()
    assert 0 < len(ids) < finals["run"].nunique()
    with closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.execute(f"UPDATE runs SET status = '{others}' WHERE id IN ({','.join(map(str, ids))})")
        database.commit()
    text = words(opened())
    assert "How much did tuning help?" in text and "methods are below" not in text


def test_a_study_with_tpe_says_that_its_methods_share_no_later_trials(empty_store: Store) -> None:
    queue_study(empty_store, STUDY | {"tune": {"trials": 12, "sampler": "tpe"}, "splits": [0]})
    study = choosing.study_of(empty_store.experiments.get(1))
    (line,) = progress.caveats(study)
    assert line.startswith("Settings were drawn by TPE: from trial 10 on, each method's settings depend on its own ")
    (waiting,) = progress.sentences(study, datetime.now(UTC))
    assert waiting.startswith("Trials 0 of 36, final runs wait for 3 methods")


@pytest.mark.slow
def test_what_settings_were_chosen_on_is_shown(empty_store: Store) -> None:
    tune = {"trials": 2, "rounds": 1, "per": "first", "select": "loss"}
    queue_study(empty_store, STUDY | {"tune": tune, "splits": [0, 1], "algorithms": ["local_train"]})
    compute(empty_store)
    text = words(opened())
    assert (
        "Settings were chosen at 1 of 2 rounds." in text and "Settings were chosen on split 0 and used on all" in text
    )
    assert "Settings were chosen by validation loss" in text and "chosen by validation loss, retrained" in text
    rows = settings.chosen(choosing.study_of(empty_store.experiments.get(1)))
    assert rows["Split"].tolist() == ["all"], "the choice is one row"


def test_the_expected_end_counts_the_finals_that_are_not_queued_yet(empty_store: Store) -> None:
    """Two slots: 18 trials of 2 rounds and at most 18 final runs, at a second per round."""
    queue_study(empty_store)
    study = choosing.study_of(empty_store.experiments.get(1))
    assert time_left.left_s(study) is None, "nothing is timed"
    with empty_store._database.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET seconds_per_round = 1.0, status = 'done', round = 2 WHERE id = 1")
    empty_store.engines.heartbeat(host="here", pid=1, device="cpu", slots=2, running=0)
    study = choosing.study_of(empty_store.experiments.get(1))
    coming = list(time_left.to_come(study))
    assert len(coming) == 18 and len({run.id for run in coming}) == 18
    now = datetime(2026, 11, 25, 23, 59, 30, tzinfo=UTC)
    lock = empty_store.try_dispatcher_lock()
    assert lock is not None
    with lock:
        left = time_left.left_s(study)
        (line,) = progress.sentences(study, now)
    assert left == pytest.approx((17 + 18) * 2 / 2, abs=1)
    assert line.endswith("final runs wait for 3 methods; expected to end on 26 Nov 2026 at about 00:00 UTC.")
    empty_store.queue.request([2], "cancel")
    assert time_left.left_s(choosing.study_of(empty_store.experiments.get(1))) is None, "it waits for the retry"
