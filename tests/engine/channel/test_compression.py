"""Compressed uploads in a run: bytes, error feedback, and when nothing changes."""

import numpy as np
import pytest
import torch

from engine.channel.dials import ChannelState, Dials
from engine.channel.round_channel import RoundChannel
from engine.compressors.top_k import TopK, TopKOptions
from engine.config.schema import RunConfig
from engine.core.client_rows import RowStore
from engine.simulation.simulate import Simulation
from tests.support.builders import assert_close, assert_equal, config, federation, personalized, simulation, supports
from tests.support.dials import METHODS

SPLIT = {"name": "dnn", "hidden": 6}


def finished(algorithm="fedavg", compression=None, **changed) -> tuple[Simulation, list]:
    run = config(algorithm, **changed).to_dict() | ({"compression": compression} if compression else {})
    simulated = Simulation(RunConfig.from_dict(run), data=federation())
    return simulated, [*simulated.rounds()]


@pytest.mark.parametrize("compression", ["none", {"name": "top_k", "share": 1.0}])
def test_all_numbers_sent_are_no_compression(compression):
    plain, expected = finished(participation=0.75)
    run, rounds = finished(participation=0.75, compression=compression)
    assert_equal(personalized(run), personalized(plain))
    assert [r.scalars["bytes_up"] for r in rounds] == [r.scalars["bytes_up"] for r in expected]


def test_what_was_sent_and_what_is_left_are_all_updates_of_a_client():
    run = simulation("fedavg")
    cohorts = [run.task.cohort_of([2, 0], 1), run.task.cohort_of([1, 2], 2)]  # client 2 twice, in other places
    dials = Dials(0, 4, compressor=TopK(TopKOptions(share=0.3)))
    state, sent, wanted = ChannelState(), torch.zeros(4, 3), torch.zeros(4, 3)
    zero = {"w": torch.zeros(2, 3)}
    for cohort, rows in zip(cohorts, ([[1.0, -3.0, 2.0], [5.0, 1.0, 1.0]], [[0.0] * 3, [4.0, 0.0, 0.0]]), strict=True):
        at = {client: row for row, client in enumerate(cohort.client_ids)}
        delta = torch.tensor(rows)
        channel = RoundChannel(dials, state, cohort.round)
        arrived = channel.deliver({"w": delta}, zero, cohort, cohort.uniform)
        for client, row in at.items():
            sent[client] += arrived.params["w"][row]
            wanted[client] += delta[row]
        state = channel.close(cohort)
    torch.testing.assert_close(sent + state.residual["models:w"]["residual"], wanted)
    assert state.residual["models:w"]["residual"][3].tolist() == [0.0] * 3


def test_what_is_left_is_sent_later():
    run = simulation("fedavg")
    cohort = run.task.cohort_of([1], 1)
    state, zero, received = ChannelState(), {"w": torch.zeros(1, 3)}, []
    for delta in ([1.0, -3.0, 2.0], [0.0] * 3, [0.0] * 3):
        channel = RoundChannel(Dials(0, 4, compressor=TopK(TopKOptions(share=0.3))), state, 1)
        received += channel.deliver({"w": torch.tensor([delta])}, zero, cohort, cohort.uniform).params["w"].tolist()
        state = channel.close(cohort)
    assert received == [[0.0, -3.0, 0.0], [0.0, 0.0, 2.0], [1.0, 0.0, 0.0]]


def test_a_run_with_feedback_continues_from_a_checkpoint():
    options = {"compression": {"name": "top_k", "share": 0.1}, "rounds": 3, "participation": 0.5}
    whole, rounds = finished("scaffold", **options)
    first = Simulation(whole.config, data=federation())
    steps = first.rounds()
    next(steps), next(steps)
    second = Simulation(whole.config, data=federation())
    second.restore(first.checkpoint())
    assert [r.round for r in second.rounds()] == [2, 3]
    assert_equal(personalized(second), personalized(whole))
    assert {kind.partition(":")[0] for kind in whole.channel_state.residual} == {"models", "changes"}
    for kind, rows in whole.channel_state.residual.items():
        assert_equal(second.channel_state.residual[kind], rows)
    assert rounds[-1].arrays["diagnostics.residual_norm"].shape == (4,)
    assert 0 < rounds[-1].scalars["diagnostics.compression.error"] < 2


def test_each_kind_of_upload_has_a_remainder_of_its_own():
    run = simulation("fedavg")
    cohort, dials = run.task.cohort_of([1], 1), Dials(0, 4, compressor=TopK(TopKOptions(share=0.5)))
    state, received = ChannelState(), []
    for sent in ({"head": [[4.0, 1.0]], "body": [[8.0, 2.0, 3.0, 1.0]], "other": [[0.0, 6.0]]}, {"head": [[0.0, 0.0]]}):
        channel = RoundChannel(dials, state, 1)
        for name, delta in sent.items():
            upload = {name: torch.tensor(delta)}
            arrived = channel.deliver(upload, None, cohort, cohort.uniform)
            received.append(arrived.params[name][0].tolist())
        state = channel.close(cohort)
    assert received == [[4, 0], [8, 0, 3, 0], [0, 6], [0, 1]]
    left = {kind: rows["residual"][1].tolist() for kind, rows in state.residual.items()}
    assert left == {"models:head": [0, 0], "models:body": [0, 2, 0, 1], "models:other": [0, 0]}


CASES = [(name, {"name": "top_k", "share": 0.1}) for name in METHODS]
CASES += [
    (name, {"name": "qsgd", "bits": 8, "feedback": feedback})
    for name, feedback in (("fedavg", True), ("scaffold", True), ("fedpac", True), ("fedmd", False), ("pfedhn", False))
]


@pytest.mark.parametrize(("name", "compression"), CASES, ids=str)
@pytest.mark.slow
def test_every_method_trains_compressed_and_sends_fewer_bytes(name, compression):
    model = SPLIT if supports(name, SPLIT) else "mlr"
    plain = simulation(name, model=model, rounds=1)
    *_, uncompressed = plain.rounds()
    run, rounds = finished(name, compression, model=model)
    assert rounds[-1].diverged is None and rounds[-1].round == 2
    assert rounds[1].scalars["bytes_up"] < uncompressed.scalars["bytes_up"] or uncompressed.scalars["bytes_up"] == 0
    assert ("diagnostics.residual_norm" in rounds[-1].arrays) == bool(run.channel_state.residual)


def test_the_recorded_remainder_of_a_method_with_several_uploads_is_that_of_its_model():
    run, rounds = finished("fedpac", {"name": "top_k", "share": 0.1}, model=SPLIT)
    assert len(run.channel_state.residual) == 2  # of body and head; clients keep their class means
    left = run.channel_state.residual["models:body.1.weight,body.1.bias"]["residual"]
    np.testing.assert_allclose(rounds[-1].arrays["diagnostics.residual_norm"], left.norm(dim=1))


def test_a_checkpoint_with_one_remainder_for_all_uploads_continues():
    run = simulation("fedavg")
    cohort, dials = run.task.cohort_of([1], 1), Dials(0, 4, compressor=TopK(TopKOptions(share=0.5)))
    older = {"models": {"residual": torch.tensor([[0.0, 0.0], [0.0, 5.0], [0.0, 0.0], [0.0, 0.0]])}}
    channel = RoundChannel(dials, ChannelState(residual=older), 1)
    arrived = channel.deliver({"w": torch.tensor([[3.0, 0.0]])}, None, cohort, cohort.uniform)
    assert arrived.params["w"].tolist() == [[0, 5]]
    left = channel.close(cohort).residual
    assert {kind: rows["residual"][1].tolist() for kind, rows in left.items()} == {"models:w": [3, 0]}


@pytest.mark.parametrize(
    "method", ["fedfomo", "fedproto", "fedprox_onestage", "l2gd", {"name": "fedamp", "start": "own"}], ids=str
)
def test_what_clients_keep_is_not_added_to_their_next_upload(method):
    """It is in there already. FedFomo's updates became 360,000 times as large in 60 rounds."""
    options = {"rounds": 3, "model": SPLIT if method == "fedproto" else "mlr"}
    run, rounds = finished(method, {"name": "top_k", "share": 0.3}, **options)
    forgetful, _ = finished(method, {"name": "top_k", "share": 0.3, "feedback": False}, **options)
    assert_equal(personalized(run), personalized(forgetful))
    assert not run.channel_state.residual and "diagnostics.residual_norm" not in rounds[-1].arrays
    assert any("clients keep what they send" in note for note in run.task.notes)


def test_fedpac_compresses_heads_and_sends_statistics_as_they_are():
    _, rounds = finished("fedpac", {"name": "top_k", "share": 0.6}, model=SPLIT)
    assert rounds[-1].diverged is None
    run, few = finished("fedpac", {"name": "top_k", "share": 0.01}, model=SPLIT)
    classes, width = run.state.prototypes.shape
    assert few[-1].scalars["bytes_up"] > 4 * (classes * width + 1) * run.state.prototypes.element_size()


@pytest.mark.parametrize("name", ["fedmd", "kt_pfl"])
def test_predictions_for_other_samples_in_each_round_leave_nothing_for_later(name):
    run, _ = finished(name, {"name": "top_k", "share": 0.3}, rounds=3)
    forgetful, _ = finished(name, {"name": "top_k", "share": 0.3, "feedback": False}, rounds=3)
    assert_equal(personalized(run), personalized(forgetful))
    assert not run.channel_state.residual
    note = f"{name}: each round sends predictions for other samples; compression.feedback has no effect"
    assert note in run.task.notes and note not in forgetful.task.notes


def test_large_residuals_are_measured_a_few_rows_at_a_time(monkeypatch):
    options = {"compression": {"name": "top_k", "share": 0.1}, "rounds": 3, "participation": 0.5}
    expected = finished(**options)[1][-1].arrays["diagnostics.residual_norm"]
    monkeypatch.setattr("engine.core.client_rows.DENSE_BYTES", 0)
    monkeypatch.setattr("engine.channel.round_channel.BLOCK_BYTES", 1)
    counts, read = [], RowStore.read

    def counted(store, places):
        counts.append(len(places))
        return read(store, places)

    monkeypatch.setattr(RowStore, "read", counted)
    found = finished(**options)[1][-1].arrays["diagnostics.residual_norm"]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert max(counts) == 2  # participants


def test_large_residuals_keep_the_rows_of_clients_that_took_part(monkeypatch):
    options = {"compression": {"name": "top_k", "share": 0.1}, "rounds": 3, "participation": 0.5}
    expected = personalized(finished(**options)[0])
    monkeypatch.setattr("engine.core.client_rows.DENSE_BYTES", 0)
    assert_close(personalized(finished(**options)[0]), expected, 1e-12)
