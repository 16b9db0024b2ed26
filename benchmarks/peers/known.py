"""The libraries, and which of our methods they have."""

from dataclasses import dataclass

OF_ANY_MODEL = ("fedavg", "fedprox", "scaffold", "local_train", "ditto", "apfl", "pfedme", "per_fedavg")
OF_SPLIT_MODELS = ("fedper", "fedrep", "fedbabu", "fedrod", "lg_fedavg", "fedproto", "fedphp", "gpfl")
# Some libraries listen on every interface: they get a network of their own, without any but the loopback.
ALONE = (
    "unshare",
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "sh",
    "-c",
    'ip link set lo up && exec "$@"',
    "sh",
)
ONE_CORE = ("taskset", "--cpu-list", "0")  # JAX has no setting for its threads


@dataclass(frozen=True)
class Peer:
    """A library. Where it rereads its files every round, it is also measured with its data in memory."""

    title: str
    methods: tuple[str, ...]
    same_weights: tuple[str, ...] = ("fedavg",)  # methods whose global models must equal ours
    needs_path: bool = False
    rereads_files: bool = False
    devices: tuple[str, ...] = ("cpu",)
    prefix: tuple[str, ...] = ()

    @property
    def variants(self) -> dict[str, bool]:
        """Titles of columns, and whether the data is in memory."""
        if not self.rereads_files:
            return {self.title: True}
        return {self.title: False, f"{self.title}, data in memory": True}

    def methods_on(self, model: str) -> tuple[str, ...]:
        """Those that make sense on the model: mlr has no body."""
        return tuple(m for m in self.methods if model != "mlr" or m not in OF_SPLIT_MODELS)


PEERS = {
    "pfllib": Peer(
        "PFLlib",
        (*OF_ANY_MODEL, *OF_SPLIT_MODELS),
        same_weights=("fedavg", "fedprox", "scaffold", "ditto"),
        needs_path=True,
        rereads_files=True,
        devices=("cpu", "cuda"),
    ),
    "fluke": Peer("fluke", ("fedavg", "ditto", "pfedme", "apfl")),
    "pfl_research": Peer("pfl-research", ("fedavg",)),
    "flower": Peer("Flower", ("fedavg",), prefix=ALONE),
    "fedjax": Peer("FedJAX", ("fedavg",), prefix=ONE_CORE),
}
