"""Models with a body and a head, one client at a time."""

from tests.support import plain
from tests.support.batches import samples_of

EXACT = 1e-10


def rounds_of(run, streams: dict[str, int]):
    """For two rounds: {client: (batches of the round, batches of each extra stream...)}."""
    for round in (1, 2):
        cohort = run.task.cohort(round)
        plans = [cohort.plan, *(run.task.plan(cohort, name, steps) for name, steps in streams.items())]
        read = [samples_of(run.task, cohort.clients, plan) for plan in plans]
        yield {i: tuple(batches[i] for batches in read) for i in cohort.clients.tolist()}


def body_and_head(run) -> tuple[plain.Params, plain.Params]:
    """(body, head) of the initial model."""
    model = run.task.initial_model()
    return tuple({n: p for n, p in model.items() if n.startswith(prefix)} for prefix in ("body.", "head."))


def row_of(params: plain.Params, client: int) -> plain.Params:
    return {n: p[client] for n, p in params.items()}
