"""The simulated clock: how long clients take, whose upload is used, how long a round lasts."""

import numpy as np
import pytest
import torch

from engine.backends.counted import Counted
from engine.channel.clock import Clock
from engine.channel.dials import ChannelState, Dials
from engine.channel.round_channel import RoundChannel
from engine.config.system import System
from engine.federation.batches import Cohort
from engine.federation.systems import Systems
from tests.support.builders import simulation

RUN = simulation("fedavg", local_steps=2, batch_size=2)  # 4 clients, 4 samples each in a round
COHORT = RUN.task.cohort(1)
SPEED = np.array([1.0, 0.5, 0.25, 0.8])  # of clients 0 to 3


def clock(bytes_down=0, speed=SPEED, participation=1.0, seed=0, **options) -> Clock:
    everyone = np.ones(4)
    systems = Systems(System(**{"compute_s": 0.25} | options), seed, speed, everyone, everyone)
    return Clock(systems, 1, participation, 4, np.full(4, bytes_down))


def trained(times=1, **options) -> Clock:
    found = clock(**options)
    found.count(times * COHORT.plan.gradient_evaluations)
    return found


def by_client(values: np.ndarray) -> list:
    return values[np.argsort(COHORT.client_ids)].tolist()


NOTHING = np.zeros(4)


@pytest.mark.parametrize(("times", "seconds"), [(1, [1, 2, 4, 1.25]), (2, [2, 4, 8, 2.5])])
def test_a_client_takes_its_gradients_times_its_seconds(times, seconds):
    assert by_client(trained(times).seconds(COHORT)) == pytest.approx(seconds)


def test_a_second_model_doubles_the_known_time_of_a_round():
    for times, expected in ((1, 1.36), (2, 2.72)):
        found = trained(times * 25, compute_s=0.0136, speed=np.ones(4))  # 100 samples a model
        found.arrives(COHORT, NOTHING)
        assert found.duration(COHORT) == pytest.approx(expected)


def test_bytes_take_the_time_of_their_link():
    found = clock(bytes_down=31_400, compute_s=0, up_mbit=8, down_mbit=4)
    found.arrives(COHORT, np.full(4, 31_400.0))
    assert by_client(found.seconds(COHORT)) == pytest.approx([0.0314 + 0.0628] * 4)


def test_where_all_take_equally_long_a_round_lasts_as_long():
    found = trained(speed=np.ones(4))
    assert found.arrives(COHORT, NOTHING).all()
    assert found.duration(COHORT) == 1.0


def test_late_uploads_are_left_out_and_the_round_ends_at_the_deadline():
    found = trained(deadline_s=2.0)
    assert by_client(found.arrives(COHORT, NOTHING)) == [True, True, False, True]
    assert found.duration(COHORT) == 2.0
    values = found.values(COHORT)
    assert values["arrived"].tolist() == [1, 1, 0, 1]
    assert (values["late"], values["dropped"], values["wasted_gradients"]) == (1, 0, 4)


def test_a_round_ends_when_all_have_reported():
    found = trained(deadline_s=100.0)
    assert found.arrives(COHORT, NOTHING).all() and found.duration(COHORT) == 4.0


def test_the_first_to_report_are_kept():
    found = trained(over_select=2.0, participation=0.5)
    assert by_client(found.arrives(COHORT, NOTHING)) == [True, False, False, True]
    assert found.duration(COHORT) == 1.25


def test_of_clients_that_report_at_once_the_lower_ones_are_kept():
    found = trained(over_select=2.0, participation=0.5, speed=np.ones(4))
    assert by_client(found.arrives(COHORT, NOTHING)) == [True, True, False, False]


def test_bytes_of_uploads_that_are_not_used_are_wasted_both_ways():
    found = trained(bytes_down=10, deadline_s=1.5)
    found.arrives(COHORT, np.full(4, 7.0))
    assert found.values(COHORT)["wasted_bytes"] == 2 * (10 + 7)


def test_each_client_takes_the_time_of_what_it_receives():
    found = trained(compute_s=0, down_mbit=8e-6, deadline_s=2.5)  # a byte a second
    found.bytes_down = np.array([0, 3, 1, 2])
    assert by_client(found.arrives(COHORT, NOTHING)) == [True, False, True, True]
    assert by_client(found.seconds(COHORT)) == pytest.approx([0, 3, 1, 2])
    assert found.values(COHORT)["wasted_bytes"] == 3


def test_dropped_clients_never_report_and_are_not_late():
    lost = [trained(drop_out=0.5, deadline_s=2.0, seed=seed) for seed in range(100)]
    arrived = np.array([by_client(found.arrives(COHORT, NOTHING)) for found in lost])
    assert not arrived[:, 2].any() and arrived[:, 0].mean() == pytest.approx(0.5, abs=0.15)
    for found, own in zip(lost, arrived, strict=True):
        values = found.values(COHORT)
        assert values["late"] + values["dropped"] == 4 - own.sum()
        assert values["dropped"] == len(found.systems.dropped(1))


def test_what_is_sent_without_training_in_between_is_one_message():
    found = trained(bytes_down=1, up_mbit=8e-6, down_mbit=8e-6, deadline_s=6.5, speed=np.ones(4))  # a byte a second
    first = found.arrives(COHORT, np.full(4, 4.0))  # 1 + 1 + 4 seconds
    assert first.all() and found.arrives(COHORT, np.full(4, 4.0)).all()
    assert found.messages == 1 and found.seconds(COHORT).tolist() == [10] * 4
    found.count(1)
    assert not found.arrives(COHORT, np.zeros(4)).any() and found.messages == 2


def test_a_client_that_was_left_out_stays_out_for_the_round():
    found = trained(over_select=2.0, participation=0.5, speed=SPEED.copy())
    found.arrives(COHORT, NOTHING)
    found.systems.speed[:] = [0.1, 1, 1, 0.1]  # the others would be first now
    found.count(COHORT.plan.gradient_evaluations)
    assert by_client(found.arrives(COHORT, NOTHING)) == [True, False, False, True]


def two_cohorts(second: list[int], **options) -> tuple[Clock, Cohort]:
    """A clock after a message of all clients and one of some of them, each after a training."""
    found, few = trained(**options), RUN.task.cohort_of(second, 1)
    found.arrives(COHORT, np.full(4, 7.0))
    found.count(few.plan.gradient_evaluations)
    found.arrives(few, np.full(len(second), 5.0))
    return found, few


def test_clients_take_the_time_of_the_trainings_that_they_take_part_in():
    for second, seconds, duration in (([0, 3], [2, 2.5], 4), ([0, 2], [2, 8], 8)):  # client 2 takes 4 for the first one
        found, few = two_cohorts(second)
        assert dict(zip(few.client_ids, found.seconds(few), strict=True)) == dict(zip(second, seconds, strict=True))
        assert found.duration(few) == duration


def test_what_an_earlier_cohort_computes_and_sends_in_vain_is_wasted():
    found, few = two_cohorts([0, 1], bytes_down=10, deadline_s=3.0)  # client 2 is late first, then client 1
    values = found.values(few)
    assert values["arrived"].tolist() == [1, 0, 0, 0] and values["late"] == 1
    assert values["wasted_gradients"] == 4 + 4
    assert values["wasted_bytes"] == (10 + 7) + (10 + 5)


def test_training_without_a_message_is_charged_to_the_clients_that_trained():
    found, few = trained(), RUN.task.cohort_of([0, 3], 1)
    found.computed_by(COHORT)
    assert not found.values(COHORT)["arrived"].any() and found.duration(COHORT) == 4
    found.count(few.plan.gradient_evaluations)
    assert found.arrives(few, np.zeros(2)).all() and found.messages == 1
    assert dict(zip(few.client_ids, found.seconds(few), strict=True)) == {0: 2, 3: 2.5} and found.duration(few) == 4


def test_training_after_the_last_message_takes_time():
    found = trained(speed=np.ones(4))
    found.arrives(COHORT, NOTHING)
    found.count(2 * COHORT.plan.gradient_evaluations)
    assert found.duration(COHORT) == 3.0


def test_gradients_that_measure_a_method_take_no_time():
    found = trained(5, speed=np.ones(4))
    found.finish(COHORT.plan.gradient_evaluations)
    assert found.duration(COHORT) == 1.0


def test_where_nothing_travels_a_round_lasts_as_long_as_its_slowest_client():
    assert trained(deadline_s=2.0).duration(COHORT) == 4.0


def test_weights_of_uploads_in_time_sum_to_one_again():
    channel = RoundChannel(Dials(0, 4), ChannelState(), 1, clock=trained(deadline_s=2.0))
    uploads = {"w": torch.arange(4, dtype=torch.float64)[:, None]}
    arrived = channel.deliver(uploads, {"w": torch.zeros(4, 1)}, COHORT, COHORT.weights)
    assert [COHORT.client_ids[row] for row in arrived.rows] == [c for c in COHORT.client_ids if c != 2]
    kept = COHORT.weights[arrived.rows]
    assert arrived.weights.tolist() == pytest.approx((kept / kept.sum()).tolist())
    nothing = channel.deliver(uploads, {"w": torch.zeros(4, 1)}, COHORT, torch.zeros(4, dtype=torch.float64))
    assert nothing.weights.tolist() == pytest.approx([1 / 3] * 3)


def test_only_what_a_client_sends_takes_its_time():
    channel = RoundChannel(Dials(0, 4), ChannelState(), 1, clock=clock(compute_s=0, up_mbit=8e-6))
    num_values = torch.tensor([0, 1, 2, 3])
    channel.deliver({"w": torch.zeros(4, 9)}, {"w": torch.zeros(4, 9)}, COHORT, COHORT.weights, num_values)
    assert channel.clock.seconds(COHORT).tolist() == pytest.approx([0, 4, 8, 12])


def test_a_counted_backend_counts_samples_and_passes():
    counts: list[int] = []
    backend = Counted(RUN.task.backend, counts.append)
    batch = next(COHORT.plan.batches(RUN.task.data.train))
    params = RUN.task.initial_clients()
    out = {n: torch.zeros_like(p) for n, p in params.items()}
    loss = backend.accumulate(out, params, batch, 1.0, 0.0)
    assert torch.equal(loss, RUN.task.backend.accumulate(out, params, batch, 1.0, 0.0))
    backend.hessian_vector(params, out, batch)
    backend.proximal_steps(out, params, batch, 0.1, 1.0, 3)
    assert counts == [8, 16, 24] and backend.name == RUN.task.backend.name
