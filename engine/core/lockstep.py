"""Members that take turns in one thread and meet where parts of their work can be computed at once.

Each member runs in a coroutine of its own (a greenlet) and knows nothing of the others, until it calls ``meet``. When
all members that have not ended wait there, those with equal keys are computed together, and each continues with its
own result.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from greenlet import getcurrent, greenlet

A = TypeVar("A")
R = TypeVar("R")
Compute = Callable[[Sequence[A]], Sequence[R]]
Resume = Callable[[], Any]
"""Resumes a member. Returns the call in which it waits next, or what it returned at its end."""


class MemberStopped(Exception):
    """Raised by a ``Compute`` if one of its members has to stop. The others are then computed without it."""

    def __init__(self, member: int, error: Exception) -> None:
        self.member, self.error = member, error
        super().__init__(str(error))


@dataclass(frozen=True, eq=False)
class _Call:
    """A call of ``meet`` that waits for its result."""

    member: greenlet
    key: Hashable
    argument: Any
    compute: Compute[Any, Any]
    has_grad: bool  # gradients are on or off for the whole thread, so each member has its own setting


class Lockstep:
    """A group of members. ``kept`` caches values that they share."""

    def __init__(self) -> None:
        self.kept: dict[Hashable, Any] = {}

    def run(self, members: Sequence[Callable[[], None]]) -> None:
        """Run all members to their ends. An exception of one ends the others too, so members should catch theirs."""
        hub, has_grad = getcurrent(), torch.is_grad_enabled()
        coroutines = [greenlet(member, hub) for member in members]
        resumes = [_starting(coroutine, has_grad) for coroutine in coroutines]
        try:
            while calls := [call for resume in resumes if isinstance(call := resume(), _Call)]:
                resumes = _computed(calls)
        finally:
            for coroutine in coroutines:  # if one has raised, the others end here
                if coroutine:
                    coroutine.throw()
            self.kept.clear()
            torch.set_grad_enabled(has_grad)

    def meet(self, key: Hashable, argument: A, compute: Compute[A, R]) -> R:
        """This member's result of ``compute``, which gets the arguments of all members with an equal key.

        It returns one result for each argument. If it raises for several members, each is computed alone; a
        ``MemberStopped`` leaves out that member only.
        """
        member = getcurrent()
        assert member.parent is not None, "only members meet"
        hash(key)  # if it cannot be hashed, that is an error of this member only
        has_grad = torch.is_grad_enabled()
        try:
            result: R = member.parent.switch(_Call(member, (compute, key, has_grad), argument, compute, has_grad))
        finally:
            torch.set_grad_enabled(has_grad)
        return result


def _computed(calls: Sequence[_Call]) -> list[Resume]:
    """How each member continues: with its result, or with its error."""
    groups: dict[Hashable, list[_Call]] = {}
    for call in calls:
        groups.setdefault(call.key, []).append(call)
    resumes: dict[_Call, Resume] = {}
    for group in groups.values():
        resumes |= _of_group(group)
    return [resumes[call] for call in calls]


def _of_group(group: Sequence[_Call]) -> dict[_Call, Resume]:
    torch.set_grad_enabled(group[0].has_grad)
    resumes: dict[_Call, Resume] = {}
    parts = [[call] for call in group]
    try:
        results = group[0].compute([call.argument for call in group])
        return {call: _returning(call.member, result) for call, result in zip(group, results, strict=True)}
    except MemberStopped as stopped:
        ended, error = group[stopped.member], stopped.error
        error.__traceback__ = error.__context__ = None  # these would keep the tensors of the interrupted computation
        resumes[ended] = _raising(ended.member, error)
        parts = [[call for call in group if call is not ended]]
    except Exception as error:  # noqa: BLE001  it belongs to a member, whatever it is
        if len(group) == 1:
            return {group[0]: _raising(group[0].member, error)}
    for part in parts:  # only now, when nothing of the failed computation is left
        resumes |= _of_group(part) if part else {}
    return resumes


def _starting(member: greenlet, has_grad: bool) -> Resume:
    def start() -> Any:
        torch.set_grad_enabled(has_grad)
        return member.switch()

    return start


def _returning(member: greenlet, result: Any) -> Resume:
    return lambda: member.switch(result)


def _raising(member: greenlet, error: Exception) -> Resume:
    return lambda: member.throw(error)
