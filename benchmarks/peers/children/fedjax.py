"""FedJAX's rounds: ``federated_averaging`` with its default backend for one device."""

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from fedjax.algorithms import fed_avg

from benchmarks.peers.turns import Job, Turns

Params = list[jax.Array]


def logits(params: Params, x: jax.Array, model: str) -> jax.Array:
    """Our networks, with PyTorch's layout of the weights."""
    if model == "cnn":
        for weight, bias in (params[0:2], params[2:4]):
            x = jax.lax.conv(x, weight, (1, 1), "VALID") + bias[None, :, None, None]
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
            x = jax.nn.relu(x)
        params = params[4:]
    x = x.reshape(len(x), -1)
    if model != "mlr":
        x = jax.nn.relu(x @ params[0].T + params[1])
        params = params[2:]
    return x @ params[0].T + params[1]


def averaging(job: Job) -> fedjax.FederatedAlgorithm:
    def loss(params: Params, batch: dict[str, jax.Array], rng: jax.Array) -> jax.Array:
        scores = jax.nn.log_softmax(logits(params, batch["x"], job.model))
        return -jnp.take_along_axis(scores, batch["y"][:, None], axis=1).mean()

    return fed_avg.federated_averaging(
        jax.grad(loss),
        client_optimizer=fedjax.optimizers.sgd(job.lr),
        server_optimizer=fedjax.optimizers.sgd(1.0),
        client_batch_hparams=fedjax.ShuffleRepeatBatchHParams(job.batch_size, num_epochs=job.local_epochs),
    )


def main() -> None:
    turns = Turns()
    job = turns.job
    x, y = job.load()
    data = [
        fedjax.ClientDataset({"x": images.astype(np.float32) / 255, "y": labels.astype(np.int32)})
        for images, labels in zip(x, y, strict=True)
    ]
    algorithm = averaging(job)
    state = algorithm.init([jnp.asarray(p) for p in job.load_initial()])

    def weights() -> list[np.ndarray]:
        return [np.asarray(p) for p in state.params]

    rng = np.random.default_rng(0)
    while True:
        turns.next(weights)
        chosen = rng.choice(job.clients, job.cohort, replace=False)
        keys = jax.random.split(jax.random.PRNGKey(turns.round), job.cohort)
        clients = [(str(i).encode(), data[i], key) for i, key in zip(chosen, keys, strict=True)]
        state, _ = algorithm.apply(state, clients)
        jax.block_until_ready(state.params)


if __name__ == "__main__":
    main()
