"""Private samples in a run: batches, what stays, what is recorded, backends, and resuming."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from engine.algorithms import fedavg
from engine.backends.fused import Fused
from engine.core.errors import Unsupported
from engine.core.params import flatten
from engine.core.registry import ALGORITHMS, Registry
from engine.simulation import dial_settings, sample_privacy
from engine.simulation.refusals import refuse
from engine.simulation.simulate import Simulation
from engine.training import local
from tests.engine.simulation.test_privacy import finished, private
from tests.support.builders import assert_close, assert_equal, federation, personalized

SAMPLE = {"unit": "sample", "clip": 1.0, "noise": 1.0}
EQUAL = (6, 6, 6, 6)


def epsilons(result) -> list[float]:
    return result.arrays["diagnostics.privacy.epsilon"].tolist()


class Empty(NamedTuple):
    """A federation without data."""

    num_clients: int


def plan_of(sizes: tuple[int, ...], steps: int, batch_size: int = 4, seed: int = 0):
    options = {"local_steps": steps, "batch_size": batch_size, "seed": seed}
    run = Simulation(private(privacy=SAMPLE, **options), data=federation(sizes))
    task, _ = run.prepare(1)
    return task, task.cohort(1).plan


def test_a_batch_takes_each_sample_independently_with_the_same_chance():
    task, plan = plan_of((10, 4, 40), 200)
    counts = np.array(plan.counts)[:, np.argsort(task.cohort(1).client_ids)]
    assert counts.mean(0).tolist() == pytest.approx([4, 4, 4], rel=0.12)
    assert counts[:, 0].var() == pytest.approx(10 * 0.4 * 0.6, rel=0.3) and (counts[:, 1] == 4).all()
    batches = [b.rows[0, : b.counts[0]].tolist() for b in plan.batches(task.data.train)]
    assert all(len(set(rows)) == len(rows) and max(rows, default=0) < 10 for rows in batches)
    taken = np.bincount([row for rows in batches for row in rows], minlength=10) / 200
    assert taken == pytest.approx(np.full(10, 0.4), abs=0.12)


def test_weights_are_one_over_the_expected_size_and_empty_batches_exist():
    task, plan = plan_of((10, 9), 60, batch_size=1)
    batches = list(plan.batches(task.data.train))
    assert {b.counts[0] for b in batches} >= {0, 1, 2}
    for batch in batches:
        assert batch.weight.sum(1).tolist() == list(batch.counts)
        assert batch.x.shape[1] == max(1, *batch.counts)


def test_batches_depend_on_the_client_alone():
    task, plan = plan_of((6, 9, 4, 7), 5)
    alone = task.cohort_of([1], 1).plan
    place = task.cohort(1).client_ids.index(1)
    for step, count in enumerate(counts[place] for counts in plan.counts):
        assert alone.counts[step] == (count,)
        assert alone.rows[0, step, :count].tolist() == plan.rows[place, step, :count].tolist()


@pytest.mark.parametrize(
    "method", ["fedavg", {"name": "ditto", "lam": 0.5}, {"name": "pfedme", "inner_steps": 2}, "fedsam"]
)
@pytest.mark.slow
def test_backends_and_chunks_agree(method, monkeypatch):
    options = {"momentum": 0.5, "model": {"name": "dnn", "hidden": 4}, "participation": 0.75}
    expected = personalized(finished(method, SAMPLE, EQUAL, backend="loop", **options)[0])
    assert_close(personalized(finished(method, SAMPLE, EQUAL, backend="batched", **options)[0]), expected, 1e-10)
    monkeypatch.setattr(Fused, "chunk_size", lambda *_: 2)
    assert_close(personalized(finished(method, SAMPLE, EQUAL, backend="fused", **options)[0]), expected, 1e-10)


def test_without_noise_and_with_a_large_norm_training_is_that_of_the_plain_backend(monkeypatch):
    free = {"unit": "sample", "clip": 1e6, "noise": 0}
    run, _ = finished({"name": "ditto", "lam": 0.5}, free | {"covers": "all"}, EQUAL)
    monkeypatch.setattr(sample_privacy, "protected", lambda task, *_: sample_privacy.replace(task, draws_samples=True))
    plain, _ = finished({"name": "ditto", "lam": 0.5}, free, EQUAL)
    assert_close(personalized(run), personalized(plain), 1e-12)


@pytest.mark.slow
def test_training_alone_is_bit_identical_and_costs_nothing_unless_all_models_are_covered():
    plain, _ = finished("local_train", sizes=EQUAL)
    run, rounds = finished("local_train", SAMPLE, EQUAL)
    assert_equal(personalized(run), personalized(plain))
    assert epsilons(rounds[-1]) == [0] * 4
    assert any("nothing is sent, so samples are private anyway" in note for note in run.task.notes)
    covered, rounds = finished("local_train", SAMPLE | {"covers": "all"}, EQUAL)
    assert (flatten(personalized(covered)) != flatten(personalized(plain))).any()
    assert min(epsilons(rounds[-1])) > 0


@pytest.mark.slow
def test_a_second_model_on_the_same_batches_costs_only_where_it_is_covered():
    sent, all_models = (finished("ditto", SAMPLE | {"covers": c}, EQUAL)[0].release_counts for c in ("sent", "all"))
    assert sent.batches.tolist() == all_models.batches.tolist() == [6] * 4
    assert sent.most.tolist() == [1] * 4 and all_models.most.tolist() == [2] * 4


@pytest.mark.slow
def test_epsilon_is_recorded_for_each_client_and_rises_with_its_rounds():
    _, rounds = finished("fedavg", SAMPLE, EQUAL, rounds=4, participation=0.5)
    assert epsilons(rounds[0]) == [0] * 4
    before = np.zeros(4)
    for result in rounds[1:]:
        now, took_part = np.array(epsilons(result)), np.isin(range(4), result.cohort)
        assert (now[took_part] > before[took_part]).all() and (now[~took_part] == before[~took_part]).all()
        before = now
    assert 0 < rounds[-1].scalars["diagnostics.privacy.clipped"] <= 1
    assert rounds[-1].scalars["diagnostics.privacy.clip"] == 1
    assert (
        rounds[-1].scalars["diagnostics.privacy.noise_norm"] > 0 < rounds[-1].scalars["diagnostics.privacy.signal_norm"]
    )


@pytest.mark.parametrize("method", ["fedavg", "l2gd", "scaffold", "cfl", "fedopt"])
def test_uploads_arrive_as_they_were_sent_and_their_norms_are_recorded(method, monkeypatch):
    run, rounds = finished(method, SAMPLE, EQUAL, participation=0.5)
    result = next(r for r in reversed(rounds) if "diagnostics.update_norm" in r.arrays)
    took_part = np.isin(range(4), result.cohort)
    norms = result.arrays["diagnostics.update_norm"]
    assert (norms[took_part] > 0).all() and np.isnan(norms[~took_part]).all() and took_part.sum() == 2
    monkeypatch.setattr(dial_settings, "dials", lambda *_: None)
    direct, plain = finished(method, SAMPLE, EQUAL, participation=0.5)
    assert_equal(personalized(run), personalized(direct))
    assert [r.scalars["bytes_up"] for r in rounds] == [r.scalars["bytes_up"] for r in plain]


def test_the_norm_of_an_update_is_its_distance_from_the_model_that_was_received():
    run, (*_, result) = finished("fedavg", SAMPLE, EQUAL[:1], rounds=1)
    moved = flatten({n: p[None] for n, p in run.models().global_model.items()})
    before = flatten({n: p[None] for n, p in run.task.initial_model().items()})
    assert result.arrays["diagnostics.update_norm"].tolist() == pytest.approx([float((moved - before).norm())])


@pytest.mark.parametrize("method", ["fedavg", "pfedme", "l2gd", "fedsam"])
def test_a_rehearsal_counts_the_releases_of_the_run(method):
    run, _ = finished(method, SAMPLE, EQUAL, participation=0.5)
    planned = sample_privacy.planned(run.algorithm, run.task, run.samples)
    assert planned.to_dict() == run.release_counts.to_dict() and planned.batches.max() > 0


@pytest.mark.slow
def test_every_client_ends_at_the_given_epsilon():
    run, rounds = finished("fedavg", {"unit": "sample", "epsilon": 3.0}, EQUAL)
    assert epsilons(rounds[-1]) == pytest.approx([3] * 4, abs=0.02) and max(epsilons(rounds[-1])) <= 3
    assert (run.samples.noise > 0).all()


def test_a_resumed_run_equals_an_uninterrupted_one():
    whole, rounds = finished("ditto", SAMPLE, EQUAL, rounds=4)
    first = Simulation(private("ditto", SAMPLE, rounds=4), data=federation(EQUAL))
    for result in first.rounds():
        if result.round == 2:
            break
    second = Simulation(private("ditto", SAMPLE, rounds=4), data=federation(EQUAL))
    second.restore(first.checkpoint())
    *_, last = second.rounds()
    assert_equal(personalized(second), personalized(whole))
    assert epsilons(last) == epsilons(rounds[-1])


def test_training_outside_of_rounds_is_not_private():
    run, _ = finished({"name": "fedavg", "finetune_steps": 2}, SAMPLE, EQUAL)
    counts = run.release_counts.batches.copy()
    run.algorithm.personalized(run.state, run.task)
    assert run.release_counts.batches.tolist() == counts.tolist()
    assert not run.task.draws_samples and run.task.unprotected_backend is None


def test_theory_that_reads_the_data_is_refused():
    theory = {"name": "fedprox_onestage", "lam": 0.1, "gamma": "theory", "inner_steps": "theory"}
    with pytest.raises(Unsupported, match="gamma and inner_steps: 'theory' reads all clients' data"):
        finished(theory, SAMPLE, EQUAL)


@pytest.mark.slow
def test_methods_that_make_models_for_evaluation_are_refused_where_all_are_covered():
    found, options = [], {"model": {"name": "dnn", "hidden": 3}}
    for name in [entry.name for entry in ALGORITHMS if "sample" in entry.privacy]:
        run = Simulation(private(name, SAMPLE, **options), data=federation(EQUAL))
        task, _ = run.prepare(1)
        state, _ = run.train(task.cohort(1), task)
        without_data = replace(run.task, data=Empty(run.task.num_clients))
        try:
            run.algorithm.personalized(state, without_data)
        except AttributeError:
            found.append(name)
    assert found == ["fedbabu", "knn_per", "lp_ft"]
    for name in found:
        with pytest.raises(Unsupported, match=f"covers: 'all', but {name} makes"):
            Simulation(private(name, SAMPLE | {"covers": "all"}, **options), data=federation(EQUAL))


def test_every_method_with_private_samples_declares_what_it_does_at_evaluation():
    assert [e.name for e in ALGORITHMS if "sample" in e.privacy and e.at_evaluation is None] == []


DECLARED = """    at_evaluation=("finetune_steps",),
"""


@pytest.mark.parametrize(
    ("declared", "steps", "message"),
    [
        ("", 5, "mine does not declare with at_evaluation .*, or use covers: sent"),
        ("", 0, "mine does not declare with at_evaluation"),
        (DECLARED, 5, "mine makes each client's model .*; set finetune_steps: 0, or covers: sent"),
        (DECLARED, 0, ""),
    ],
)
def test_a_plugin_that_may_fine_tune_must_declare_it_where_all_are_covered(
    declared, steps, message, tmp_path, monkeypatch
):
    text = Path(fedavg.__file__).read_text(encoding="utf-8").replace('"fedavg"', '"mine"', 1)
    assert DECLARED in text
    (tmp_path / "mine.py").write_text(text.replace(DECLARED, declared), encoding="utf-8")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    mine = {"name": "mine", "finetune_steps": steps}
    refuse(private(mine, SAMPLE))
    with pytest.raises(Unsupported, match=message) if message else nullcontext():
        refuse(private(mine, SAMPLE | {"covers": "all"}))


def test_an_option_that_a_method_names_must_exist():
    own = Registry("algorithm", "engine.algorithms")
    with pytest.raises(ValueError, match="'mine': at_evaluation names steps, not an option"):
        own.register("mine", title="Mine", paper="none", at_evaluation=("steps",))(fedavg.FedAvg)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"name": "fedavg", "finetune_steps": 5}, "fedavg makes .*; set finetune_steps: 0, or covers: sent"),
        ({"name": "lp_ft"}, "set lp_steps: 0 and ft_steps: 0, or covers: sent"),
        ({"name": "knn_per", "lam": "auto"}, "set lam: 0, or covers: sent"),
    ],
)
def test_models_for_evaluation_can_be_switched_off_where_all_are_covered(method, message):
    with pytest.raises(Unsupported, match=message):
        finished(method, SAMPLE | {"covers": "all"}, EQUAL)
    off = dict.fromkeys((n for n in ("finetune_steps", "lp_steps", "ft_steps", "lam") if f"{n}: 0" in message), 0)
    finished(method | off, SAMPLE | {"covers": "all"}, EQUAL)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ({"name": "cfl", "eps1": 1e6, "eps2": 0.0, "warmup": 0}, {"participation": 0.75}),
        ({"name": "fl_hc", "at_round": 1, "n_clusters": 2}, {"system": {"drop_out": 0.5}}),
    ],
)
def test_clusters_of_clients_without_an_upload_do_not_depend_on_their_data(method, settings, monkeypatch):
    for name in ("cfl", "fl_hc"):
        monkeypatch.setattr(f"engine.algorithms.{name}.training_losses", None)
    run, _ = finished(method, SAMPLE, (6,) * 8, rounds=1, **settings)
    assert run.state.contexts.assigned.max() == 1
    assert any("since their losses would reveal their data" in note for note in run.task.notes)


@pytest.mark.parametrize(
    ("method", "training", "message"),
    [
        ("per_fedavg", {}, "uses the data beyond sums of per-sample gradients"),
        ("fedavg", {"clip_norm": 1.0}, "clip one gradient twice"),
        ("fedavg", {"batch_size": "full"}, "sampling is part of the guarantee"),
    ],
)
def test_what_has_no_guarantee_is_refused(method, training, message):
    with pytest.raises(Unsupported, match=message):
        finished(method, SAMPLE, EQUAL, **training)


@pytest.mark.parametrize("changed", [{"privacy": SAMPLE}, {"system": {"compute_s": 0.01, "deadline_s": 0.13}}], ids=str)
def test_a_chunk_that_did_not_fit_counts_once(changed, monkeypatch):
    """Its gradients are computed again: neither their releases nor their time count twice."""
    expected, rounds = finished(**changed)
    train, failed = local._train_chunk, []

    def fails_once(*arguments):
        train(*arguments)
        if not failed:
            failed.append(True)
            raise torch.OutOfMemoryError

    monkeypatch.setattr(local, "_train_chunk", fails_once)
    run, found = finished(**changed)
    assert failed
    assert_equal(personalized(run), personalized(expected))
    for ours, theirs in zip(found, rounds, strict=True):
        assert {n: v for n, v in ours.scalars.items() if n != "seconds"} == pytest.approx(
            {n: v for n, v in theirs.scalars.items() if n != "seconds"}, nan_ok=True
        )
