"""A paper's claims: the rule by which one holds, and the sentence about it, with known numbers."""

from pkgutil import iter_modules

import numpy as np
import pytest

from app.data.preset_catalog import PresetRun, known
from app.data.shipped import Shipped
from app.papers import claims as folder
from app.papers import gallery
from app.papers.card import Card, of_claims
from app.papers.claim import HEADS, Check, Claim, Verdict, above, below, claims, verdicts
from app.papers.preset_progress import Standing
from app.papers.results import Measure, Results, Setting
from app.papers.words import data_and_model
from engine.core.statistics import t_interval
from tests.app.frames import run_record


def check(*margins: float) -> Check:
    return Check("A 2 %, B 1 %", t_interval(np.array(margins)))


def verdict(*checks: Check) -> Verdict:
    return Verdict(Claim("A is ahead of B.", "section 1", lambda results: checks), checks)


def setting(**runs: list[float]) -> tuple[Setting, Measure]:
    """The values of each label, one for each seed."""
    ids = {(label, seed): 100 * place + seed for place, label in enumerate(runs) for seed in range(len(runs[label]))}
    values = {run_id: runs[label][seed] for (label, seed), run_id in ids.items()}
    return Setting("e", run_record(0, "A", 0), ids), Measure(values, lambda value: f"{value:g}")


@pytest.mark.parametrize(
    ("margins", "state"),
    [
        ((0.1,), "holds"),
        ((-0.1,), "fails"),
        ((0.0,), "fails"),
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
    assert one.sentence() == "2 of 3 comparisons agree. Furthest off: A 2 %, B 1 %. One seed proves nothing."
    assert verdict(check(0.1, 0.2)).sentence() == "A 2 %, B 1 %. Only two seeds: too few to tell."
    assert verdict(check(0.1, 0.11, 0.12)).sentence().endswith("By 95 % intervals over 3 seeds.")


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
    pairs = tuple((PresetRun("e", label, "cgpfl", 0, label), run) for label, run in runs.items())
    shipped = Shipped("", tuple(runs.values()), {})
    (found,) = verdicts(Results(known()["cgpfl-fig1-2"], "quick", Standing(pairs), shipped))
    assert data_and_model(next(iter(runs.values()))) == "MNIST MLR"
    assert found.state == "fails" and [one.state for one in found.checks] == ["fails", "holds"]
    assert "MNIST MLR: CGPFL K=2 80.0 %, Ditto 90.0 %" in found.sentence()


def test_every_file_of_claims_has_a_preset() -> None:
    files = {module.name.replace("_", "-") for module in iter_modules(folder.__path__)}
    assert files == {name for name, preset in known().items() if claims(preset)}


def test_the_gallery_counts_the_claims_that_hold() -> None:
    cards = [Card(claims=("holds", "holds")), Card(claims=("fails",)), Card(claims=("unclear",)), Card()]
    expected = "Of 4 claims about figures without printed numbers, 2 hold in these runs, 1 does not and 1 is not clear."
    assert gallery.finding(cards) == expected
    assert "claim" not in gallery.finding([Card()])
    assert of_claims(["holds", "holds"]) == "2 of 2 claims hold here" and of_claims(["fails"]) == HEADS["fails"]
    assert Card(claims=("holds", "unclear")).mark == "~"
