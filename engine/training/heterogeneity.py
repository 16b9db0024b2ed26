"""R-hat: how much the clients' own models differ, estimated from clients that train alone (Yu et al., section 6.2).

R_h = max_i ||w_i - mean w|| over all parameters. Unlike measures of the labels it sees differences in features too, but
it depends on the model, the learning rate and the steps: compare values of one setting only.
"""

from engine.core.params import broadcast, flatten
from engine.task import Task
from engine.training import statistical_error
from engine.training.local import SGD, local_sgd

STEPS = 200


def estimate(task: Task, steps: int = STEPS, lr: float | None = None) -> tuple[float, int]:
    """R-hat, and its cost in gradient evaluations: ``steps`` of every client alone, from the common start."""
    alone = task.everyone(stream="estimate", steps=steps)
    trained = local_sgd(task, broadcast(task.initial_model(), task.num_clients), alone, SGD.of(task, lr))
    task.channel.computed_by(alone)
    return statistical_error.heterogeneity(flatten(trained.params)), trained.gradient_evaluations
