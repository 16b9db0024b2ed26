"""The settings that act on uploads. A run with none of them uses ``PlainChannel``."""

from dataclasses import dataclass, field, replace
from typing import Any

from jaxtyping import Bool
from torch import Tensor

from engine.aggregators import Aggregator
from engine.aggregators.mean import Mean
from engine.attacks import Attack
from engine.compressors import Compressor
from engine.compressors.none import Uncompressed
from engine.core.params import ClientParams
from engine.federation.systems import Systems
from engine.privacy.client_level import ClientLevel


@dataclass(frozen=True)
class Dials:
    """What happens to uploads in each round of a run."""

    seed: int
    num_clients: int
    attack: Attack | None = None
    is_malicious: Bool[Tensor, "N"] | None = None  # where there is an attack
    malicious_share: float = 0.0  # what a rule that needs to know expects
    aggregator: Aggregator = field(default_factory=Mean)
    compressor: Compressor = field(default_factory=Uncompressed)
    systems: Systems | None = None  # where devices are simulated
    privacy: ClientLevel | None = None  # where the presence of clients is hidden

    @property
    def is_poisson(self) -> bool:
        """Whether participants are drawn independently."""
        return self.privacy is not None and self.privacy.options.sampling == "poisson"

    def expected_malicious(self, uploads: int) -> int:
        """How many of so many uploads are expected to be malicious."""
        return round(self.malicious_share * uploads)

    @property
    def loses_nothing(self) -> bool:
        """Whether uploads arrive as they were sent and the server takes their mean: at most the clock is on."""
        loses_uploads = self.systems is not None and self.systems.options.loses_uploads
        return not loses_uploads and replace(self, systems=None) == Dials(self.seed, self.num_clients)


@dataclass(frozen=True)
class ChannelState:
    """What the channel remembers from round to round; it is in the checkpoint, beside the method's state."""

    rounds: int = 0  # closed so far
    residual: dict[str, ClientParams] = field(default_factory=dict)  # [N, P] what clients have not sent yet, by kind
    simulated_s: float = 0.0  # of these rounds
    releases: int = 0  # noisy aggregates so far
    clip: float | None = None  # of the next release; None before the first one

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))
