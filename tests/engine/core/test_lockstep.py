"""Members take turns and meet: equal keys are computed together, and each stops or fails by itself."""

from collections.abc import Callable, Sequence

import pytest
import torch

from engine.core.lockstep import Lockstep, MemberStopped


class Doubling:
    """Computes twice its arguments, and notes which it got together."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def __call__(self, arguments: Sequence[int]) -> list[int]:
        self.calls.append(list(arguments))
        return [2 * a for a in arguments]


def member(
    lockstep: Lockstep, results: dict[int, list[int]], k: int, rounds: int, compute: Doubling
) -> Callable[[], None]:
    def run() -> None:
        results[k] = [lockstep.meet("key", 10 * round + k, compute) for round in range(rounds)]

    return run


def test_members_that_meet_are_computed_together_and_get_their_own_results() -> None:
    lockstep, results, compute = Lockstep(), dict[int, list[int]](), Doubling()
    lockstep.run([member(lockstep, results, k, 2, compute) for k in range(3)])
    assert compute.calls == [[0, 1, 2], [10, 11, 12]]
    assert results == {0: [0, 20], 1: [2, 22], 2: [4, 24]}


def test_a_member_that_ends_early_does_not_hold_up_the_others() -> None:
    lockstep, results, compute = Lockstep(), dict[int, list[int]](), Doubling()
    lockstep.run([member(lockstep, results, k, k + 1, compute) for k in range(3)])
    assert compute.calls == [[0, 1, 2], [11, 12], [22]]


def test_members_with_other_keys_or_computations_are_computed_apart() -> None:
    lockstep, one, other = Lockstep(), Doubling(), Doubling()
    lockstep.run(
        [
            lambda: lockstep.meet("a", 1, one),
            lambda: lockstep.meet("b", 2, one),
            lambda: lockstep.meet("a", 3, other),
            lambda: lockstep.meet("a", 4, one),
        ]
    )
    assert one.calls == [[1, 4], [2]] and other.calls == [[3]]


def test_a_member_that_is_stopped_leaves_the_others_to_be_computed_without_it() -> None:
    lockstep, results, stopped = Lockstep(), dict[int, int](), list[str]()

    def compute(arguments: Sequence[int]) -> list[int]:
        if 1 in arguments:
            raise MemberStopped(list(arguments).index(1), KeyError("stop"))
        return [2 * a for a in arguments]

    def run(k: int) -> Callable[[], None]:
        def body() -> None:
            try:
                results[k] = lockstep.meet("key", k, compute)
            except KeyError as error:
                stopped.append(f"{k} {error}")

        return body

    lockstep.run([run(k) for k in range(3)])
    assert results == {0: 0, 2: 4} and stopped == ["1 'stop'"]


def test_an_error_of_a_joint_computation_reaches_the_member_that_causes_it() -> None:
    lockstep, results, failed = Lockstep(), dict[int, float](), list[int]()

    def compute(arguments: Sequence[int]) -> list[float]:
        return [1 / a for a in arguments]

    def run(k: int) -> Callable[[], None]:
        def body() -> None:
            try:
                results[k] = lockstep.meet("key", k, compute)
            except ZeroDivisionError:
                failed.append(k)

        return body

    lockstep.run([run(k) for k in (0, 1, 2)])
    assert failed == [0] and results == {1: 1.0, 2: 0.5}


def test_each_member_keeps_its_own_gradient_mode() -> None:
    lockstep, seen = Lockstep(), list[tuple[str, bool]]()

    def compute(arguments: Sequence[str]) -> Sequence[str]:
        seen.append(("+".join(arguments), torch.is_grad_enabled()))
        return arguments

    def without() -> None:
        with torch.no_grad():
            lockstep.meet("key", "without", compute)
            seen.append(("after without", torch.is_grad_enabled()))

    def with_gradients(name: str) -> Callable[[], None]:
        def body() -> None:
            lockstep.meet("key", name, compute)
            seen.append((f"after {name}", torch.is_grad_enabled()))

        return body

    lockstep.run([with_gradients("a"), without, with_gradients("b")])
    assert dict(seen) == {"a+b": True, "without": False, "after a": True, "after b": True, "after without": False}
    assert torch.is_grad_enabled()


def test_an_exception_that_a_member_does_not_handle_ends_all_members() -> None:
    lockstep, ended = Lockstep(), list[str]()

    def fails() -> None:
        raise RuntimeError("unexpected")

    def waits() -> None:
        try:
            lockstep.meet("key", 0, Doubling())
        finally:
            ended.append("waits")

    with pytest.raises(RuntimeError, match="unexpected"):
        lockstep.run([waits, fails, waits])
    assert ended == ["waits"]  # the third has never begun


def test_a_key_that_cannot_be_hashed_is_an_error_of_its_member_only() -> None:
    lockstep, results, failed = Lockstep(), dict[int, list[int]](), list[str]()

    def fails() -> None:
        try:
            lockstep.meet(["a list"], 0, Doubling())  # type: ignore[arg-type]
        except TypeError as error:
            failed.append(str(error))

    lockstep.run([fails, member(lockstep, results, 1, 1, Doubling())])
    assert len(failed) == 1 and results == {1: [2]}
