"""A paper's claims: the rule by which one holds, and the sentence about it, with known numbers."""

from collections.abc import Callable, Mapping
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pytest

from app.data.preset_catalog import PresetRun, experiments, known, preset_runs
from app.data.shipped import Shipped
from app.papers import card, gallery
from app.papers import claims as folder
from app.papers.card import Card, in_words, of_claims
from app.papers.claim import Check, Claim, State, Verdict, above, below, claims, verdicts
from app.papers.gallery import Entry
from app.papers.preset_progress import Standing
from app.papers.results import Measure, Results, Setting
from app.papers.words import data_and_model
from app.statistics.intervals import t_interval
from engine.config.presets import Preset
from engine.config.schema import RunConfig
from storage import Store
from tests.app.frames import run_record

ACCURACY = {"mean": 0.5, "weighted_mean": 0.5, "std": 0.1, "lowest5": 0.4}
NUMBERS = {  # those of a shipped run that claims are about
    "rounds": [0, 1, 5],
    "means": {"personalized.total_error": 0.5, "personalized.common_accuracy": 0.5},
    "last": {"diagnostics.statistical_error_local": 0.5},
    "series": {"personalized.mean": [0.5, 0.5, 0.5], "personalized.total_error": [0.5, 0.5, 0.5]},
    "clusters": {"0": [0, 1], "5": [0, 1]},
}


def check(*margins: float) -> Check:
    return Check("A 2 %, B 1 %", t_interval(np.array(margins)))


def verdict(*checks: Check) -> Verdict:
    return Verdict(Claim("A is ahead of B.", "section 1", lambda results: checks), checks)


def setting(**runs: list[float]) -> tuple[Setting, Measure]:
    """The values of each label, one for each seed."""
    ids = {(label, seed): 100 * place + seed for place, label in enumerate(runs) for seed in range(len(runs[label]))}
    values = {run_id: runs[label][seed] for (label, seed), run_id in ids.items()}
    return Setting("e", {}, ids, tuple(runs)), Measure(values, lambda value: f"{value:g}")


def planned(preset: Preset, scale: str) -> list[tuple[PresetRun, RunConfig]]:
    configs = [run for experiment in experiments(preset, scale) for run in experiment.runs()]
    return list(zip(preset_runs(preset, scale), configs, strict=True))


def underway(
    preset: Preset,
    scale: str,
    runs: list[tuple[PresetRun, RunConfig]],
    is_done: Callable[[PresetRun], bool],
    numbers: Mapping[str, Any] = NUMBERS,
) -> Results:
    """The results while only some of the planned ``runs`` are done, all with the same ``numbers``."""
    found = {
        want.digest: run_record(
            run_id,
            want.label,
            want.seed,
            algorithm=want.algorithm,
            config=config.to_dict(),
            digest=want.digest,
            partition={"test_sizes": [10, 10]},
            summary={"personalized": ACCURACY, "global": ACCURACY},
        )
        for run_id, (want, config) in enumerate(runs)
        if is_done(want)
    }
    pairs = tuple((want, found.get(want.digest)) for want, _ in runs)
    shipped = Shipped("", tuple(found.values()), {run.id: numbers for run in found.values()})
    return Results(preset, scale, Standing(pairs), shipped)


@pytest.mark.parametrize(
    ("margins", "state"),
    [
        ((0.1,), "holds"),
        ((-0.1,), "fails"),
        ((0.0,), "unclear"),
        ((0.0, 0.0), "unclear"),
        ((0.1, 0.3), "holds"),
        ((0.1, 0.11, 0.12), "holds"),
        ((-0.1, -0.11, -0.12), "fails"),
        ((0.1, 0.3, -0.2), "unclear"),
    ],
)
def test_three_seeds_are_judged_by_their_interval_and_fewer_by_the_observed_values(
    margins: tuple[float, ...], state: str
) -> None:
    assert check(*margins).state == state


def test_one_comparison_that_disagrees_makes_the_claim_fail() -> None:
    clear, open_, against = check(0.1, 0.11, 0.12), check(0.1, 0.3, -0.2), check(-0.1, -0.11, -0.12)
    assert verdict(clear).state == "holds"
    assert verdict(clear, open_).state == "unclear"
    assert verdict(clear, open_, against).state == "fails"


def test_the_sentence_has_the_count_the_numbers_and_how_many_seeds() -> None:
    one = verdict(check(0.1), check(-0.2), check(0.3))
    assert one.sentence() == "2 of 3 comparisons agree. Furthest off: A 2 %, B 1 %."
    assert verdict(check(0.1, 0.2)).sentence() == "A 2 %, B 1 %."
    assert verdict(check(0.1, 0.11, 0.12)).sentence().endswith("By 95 % intervals over 3 seeds.")


def test_a_verdict_that_is_not_tested_says_so_next_to_it() -> None:
    assert verdict(check(0.1)).head == "Holds in one seed (not tested)"
    assert verdict(check(0.1, 0.2), check(-0.1, -0.2)).head == "Does not hold in two seeds (not tested)"
    assert verdict(check(0.0)).head == "Not clear in one seed (not tested)"
    assert verdict(check(0.1, 0.11, 0.12)).head == "Holds here"


def test_methods_are_compared_seed_by_seed() -> None:
    own, measure = setting(A=[0.8, 0.9, 0.7], B=[0.7, 0.8, 0.6])
    found = above(own, measure, "A", "B", place="MNIST")
    assert found.words == "MNIST: A 0.8, B 0.7"
    assert found.margin.mean == pytest.approx(0.1) and found.margin.n == 3 and found.state == "holds"
    assert below(own, measure, "A", "B").state == "fails"


def test_a_claim_may_have_a_tolerance() -> None:
    own, measure = setting(A=[0.80], B=[0.805])
    assert above(own, measure, "A", "B").state == "fails"
    assert above(own, measure, "A", "B", less=0.01).state == "holds"
    own, measure = setting(A=[1.4], B=[1.0])
    assert below(own, measure, "A", "B").state == "fails"
    assert below(own, measure, "A", "B", times=1.5).state == "holds"


def test_a_missing_method_gives_no_verdict() -> None:
    own, measure = setting(A=[0.8])
    assert above(own, measure, "A", "B").margin.n == 0


def test_the_best_label_is_the_one_with_the_highest_mean() -> None:
    own, measure = setting(A=[0.8, 0.6], B=[0.75, 0.75])
    assert own.best(measure, ["A", "B"]) == "B" and own.best(measure, ["A", "B"], is_low=True) == "A"


def test_without_values_no_label_is_the_best() -> None:
    own, measure = setting(A=[0.8])
    assert own.best(measure, []) == own.best(measure, ["B"], is_low=True) == ""
    assert own.best(measure, ["B", "A"]) == "A"


@pytest.mark.slow
def test_while_one_run_is_done_only_claims_about_single_runs_have_a_verdict() -> None:
    """Each label of an experiment once: the larger scale adds only labels that the smaller one lacks."""
    tested = set()
    for preset in known().values():
        seen: set[str] = set()
        for scale in preset.scales if claims(preset) else ():
            runs = planned(preset, scale)
            new = {(want.experiment, want.label): want for want, _ in runs if want.label not in seen}
            seen |= {label for _, label in new}
            for one in new.values():
                results = underway(preset, scale, runs, lambda want, one=one: want == one)
                assert len({run.id for run in results.runs}) == 1
                try:
                    found = verdicts(results)
                except Exception as error:
                    raise AssertionError(f"{preset.name}: only {one.label} of {one.experiment} is done") from error
                if found:
                    tested.add(preset.name)
    assert tested == {"cgpfl-fig4-5"}


def test_without_runs_no_claim_has_a_verdict(empty_store: Store) -> None:
    for preset in known().values():
        for scale in preset.scales if claims(preset) else ():
            pairs = tuple((want, None) for want in preset_runs(preset, scale))
            assert verdicts(Results(preset, scale, Standing(pairs))) == [], (preset.name, scale)


def test_until_two_lambdas_are_done_nothing_is_said_about_a_larger_one() -> None:
    preset = known()["fedprox-fig1"]
    runs = planned(preset, "paper")

    def says(*labels: str) -> set[str]:
        found = verdicts(underway(preset, "paper", runs, lambda want: want.label in labels))
        return {verdict.claim.says for verdict in found}

    larger = "On MNIST, a larger λ brings FedProx closer to one model for all."
    assert larger not in says("LocalTrain", "GlobalTrain", "FedProx lam=2.5")
    assert larger in says("GlobalTrain", "FedProx lam=0.5", "FedProx lam=2.5")


def test_alike_and_different_clients_are_those_of_the_smallest_and_the_largest_spread_of_the_preset() -> None:
    preset = known()["fedprox-fig1"]
    runs = planned(preset, "paper")

    def places(*spreads: float) -> list[set[str]]:
        names = [f"FedProx figure 1, synthetic R={R:g}" for R in spreads]
        both = ("LocalTrain", "GlobalTrain")
        results = underway(preset, "paper", runs, lambda want: want.experiment in names and want.label in both)
        return [{check.words.partition(":")[0] for check in verdict.checks} for verdict in verdicts(results)]

    assert places(0.25, 2) == []
    assert places(0, 0.25) == [{"R = 0"}]
    assert places(0, 0.25, 3) == [{"R = 0", "R = 3"}]


def test_a_claim_about_cgpfl_holds_or_fails_with_the_numbers_of_its_runs() -> None:
    """Every K against the best rival: 0.80 and 0.95 against 0.90."""
    values = {"pFedMe": 0.7, "Ditto": 0.9, "CGPFL K=2": 0.8, "CGPFL K=4": 0.95}
    runs = {
        label: run_record(
            at,
            label,
            0,
            algorithm="cgpfl",
            dataset={"name": "mnist"},
            model={"name": "mlr"},
            digest=label,
            summary={"personalized": {"weighted_mean": v}},
        )
        for at, (label, v) in enumerate(values.items())
    }
    first = planned(known()["cgpfl-fig1-2"], "quick")[0][0].experiment
    pairs = tuple((PresetRun(first, label, "cgpfl", 0, label), run) for label, run in runs.items())
    shipped = Shipped("", tuple(runs.values()), {run.id: NUMBERS for run in runs.values()})
    found, _ = verdicts(Results(known()["cgpfl-fig1-2"], "quick", Standing(pairs), shipped))
    assert data_and_model(next(iter(runs.values())).config) == "MNIST MLR"
    assert found.state == "fails" and [one.state for one in found.checks] == ["fails", "holds"]
    assert "MNIST MLR: CGPFL K=2 80.0 %, Ditto 90.0 %" in found.sentence()


def test_every_file_of_claims_has_a_preset() -> None:
    files = {module.name.replace("_", "-") for module in iter_modules(folder.__path__)}
    assert files == {name for name, preset in known().items() if claims(preset)}


def test_the_gallery_counts_the_claims_that_hold() -> None:
    preset = known()["fedprox-fig1"]

    def entry(scale: str, **claims: State) -> Entry:
        return Entry(preset, scale, Card(claims=claims), "", "")

    entries = [entry("quick", a="holds", b="holds"), entry("quick", c="fails"), entry("quick", d="unclear")]
    expected = "Of 4 claims about figures without printed numbers, 2 hold in these runs, 1 does not and 1 is not clear."
    assert gallery.finding([*entries, entry("quick")]) == expected
    assert "claim" not in gallery.finding([entry("quick")])


def test_a_claim_of_several_presets_counts_once_at_the_larger_scale() -> None:
    preset = known()["fedprox-fig1"]
    quick = Entry(preset, "quick", Card(claims={"a": "holds", "b": "holds"}), "", "")
    full = Entry(preset, "paper", Card(claims={"a": "fails"}), "", "")
    expected = (
        "Of 2 claims about figures without printed numbers (each counted once), 1 holds in these runs and 1 does not."
    )
    assert gallery.finding([full, quick]) == gallery.finding([quick, full]) == expected


def test_a_card_says_how_many_claims_hold() -> None:
    assert of_claims(["holds", "holds"]) == "2 of 2 claims hold here" and of_claims(["fails"]) == "Does not hold here"
    assert of_claims(["fails"], is_alone=False) == "Claim: does not hold here" and of_claims([]) == ""
    assert of_claims(["holds", "fails"], 1) == "1 of 2 claims holds in one seed"
    assert of_claims(["holds", "holds"], 2) == "2 of 2 claims hold in two seeds"
    assert of_claims(["fails"], 1) == "Does not hold in one seed"


@pytest.mark.parametrize(
    ("states", "mark"),
    [(["holds", "unclear"], "◐"), (["holds", "fails"], "◐"), (["holds"], "✓"), (["fails", "unclear"], "✗")],
)
def test_a_card_of_which_some_claims_hold_has_a_mark_of_its_own(states: list[State], mark: str) -> None:
    assert Card(claims=dict(zip("ab", states, strict=False))).mark == mark


def test_a_claim_does_not_hold_while_a_comparison_lacks_results() -> None:
    found = Verdict(Claim("A is ahead.", "section 1", lambda results: ()), (check(0.1),), (check(), check()))
    assert found.state == "unclear"
    assert found.sentence() == "A 2 %, B 1 %. 2 more comparisons lack results: A 2 %, B 1 %; A 2 %, B 1 %."


def test_the_best_rival_is_best_on_the_seeds_that_all_have() -> None:
    own, measure = setting(A=[0.8, 0.2], B=[0.7])
    assert own.best(measure, ["A", "B"]) == "A"


def test_labels_of_one_run_are_all_judged() -> None:
    """PLGU-LF with D=5, rho=0.05 and 5 local epochs is one run with three labels."""
    preset = known()["plgu-ablations"]
    for scale in preset.scales:
        found = verdicts(underway(preset, scale, planned(preset, scale), lambda want: True))
        assert [verdict.missing for verdict in found] == [()] and len(found[0].checks) >= 6


def test_with_all_runs_no_comparison_lacks_results() -> None:
    for preset in known().values():
        for scale in preset.scales if claims(preset) and preset.name != "plgu-fig7" else ():
            found = verdicts(underway(preset, scale, planned(preset, scale), lambda want: True))
            assert {verdict.missing for verdict in found} == {()}, (preset.name, scale)


@pytest.mark.parametrize(("last", "state"), [([0, 1], "holds"), ([1, 1], "fails")])
def test_contexts_have_settled_if_no_client_moves_late(last: list[int], state: str) -> None:
    preset = known()["cgpfl-fig4-5"]
    runs = planned(preset, "quick")
    rounds = runs[0][1].training.rounds
    numbers = {**NUMBERS, "rounds": [0, rounds - 1], "clusters": {"0": [0, 1], str(rounds - 1): last}}
    (found,) = verdicts(underway(preset, "quick", runs, lambda want: True, numbers))
    assert found.state == state and len(found.checks) == len(runs)


def test_losses_of_accuracy_are_measured_over_three_rounds() -> None:
    preset = known()["gpfl-overfitting"]
    curve = [0.5, 0.9, 0.5, 0.8, 0.8, 0.7, 0.6, 0.5]  # the best three are 0.77, the last three 0.6
    numbers = {**NUMBERS, "rounds": list(range(len(curve))), "series": {"personalized.mean": curve}}
    results = underway(preset, "quick", planned(preset, "quick"), lambda want: True, numbers)
    assert list(results.lost(3).values.values()) == pytest.approx([2.3 / 3 - 0.6] * len(results.runs))


def test_an_experiment_without_results_counts_as_missing() -> None:
    preset = known()["fedprox-fig1"]
    runs = planned(preset, "paper")
    alike = underway(preset, "paper", runs, lambda want: want.experiment == "FedProx figure 1, synthetic R=0")
    sharing, adaptive, *_ = verdicts(alike)
    assert len(sharing.checks) == len(sharing.missing) == 4  # those at R = 3
    assert len(adaptive.checks) == 1 and len(adaptive.missing) == 5


def test_a_preset_whose_other_runs_diverged_is_complete() -> None:
    preset = known()["digits-first"]
    done, *others = [
        (want, run_record(i, want.label, want.seed, status="diverged" if i else "done"))
        for i, want in enumerate(preset_runs(preset, "quick"))
    ]
    now = Standing((done, *others))
    assert now.is_complete and not now.unfinished
    assert not Standing(tuple(others)).is_complete


@pytest.mark.parametrize(
    ("seeds", "words"),
    [
        ((3, 3), "2 of 2 claims hold here"),
        ((3, 1), "2 of 2 claims hold here (some not tested)"),
        ((2, 1), "2 of 2 claims hold in one seed"),
    ],
)
def test_a_card_says_which_claims_are_not_tested(
    monkeypatch: pytest.MonkeyPatch, seeds: tuple[int, int], words: str
) -> None:
    preset = known()["cgpfl-table1"]
    quick = underway(preset, "quick", planned(preset, "quick"), lambda want: True)
    both = [
        Verdict(Claim(f"claim {i}", "section 1", lambda results: ()), (check(*np.linspace(0.1, 0.11, n)),))
        for i, n in enumerate(seeds)
    ]
    monkeypatch.setattr(card, "verdicts", lambda results: both)
    assert in_words(quick).verdict == words


def test_a_card_at_quick_scale_does_not_count_numbers_that_match_the_paper() -> None:
    preset = known()["cgpfl-table1"]
    quick, full = (underway(preset, scale, planned(preset, scale), lambda want: True) for scale in ("quick", "paper"))
    assert in_words(quick).verdict == "" and in_words(full).verdict.endswith("within 1 point")
