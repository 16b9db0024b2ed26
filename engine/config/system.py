"""The section ``system``: how fast clients compute and send, how long the server waits, and who can be sampled."""

from typing import ClassVar, Literal

from pydantic import Field

from engine.core.registry import Options


class System(Options):
    """Simulated devices and links: some clients are slow, late or absent.

    Times are simulated seconds; nothing here is measured. The defaults of computing are FedScale's log-normal
    distribution, in simulated seconds for the gradient of a sample: LogNormal(1, 0.6) x 0.005 s has the median
    0.0136 s.
    """

    advanced: ClassVar[tuple[str, ...]] = ("compute_spread", "link_spread", "over_select", "tie_strength")

    compute_s: float = Field(
        0.0,
        ge=0,
        le=1e6,
        title="Seconds per gradient",
        description="Median over clients of the seconds that the gradient of one sample takes; 0: computing takes no "
        "time. FedScale's devices have 0.0136.",
    )
    compute_spread: float = Field(
        0.6,
        ge=0,
        le=10,
        title="Spread of speeds (σ)",
        description="Standard deviation over clients of the logarithm of these seconds.",
    )
    up_mbit: float | None = Field(
        None,
        gt=0,
        le=1e9,
        title="Upload (Mbit/s)",
        description="Median over clients of the megabits sent per second; by default sending takes no time.",
        json_schema_extra={"unset": "takes no time"},
    )
    down_mbit: float | None = Field(
        None,
        gt=0,
        le=1e9,
        title="Download (Mbit/s)",
        description="Median over clients of the megabits received per second; by default receiving takes no time.",
        json_schema_extra={"unset": "takes no time"},
    )
    link_spread: float = Field(
        1.0,
        ge=0,
        le=10,
        title="Spread of links",
        description="Standard deviation over clients of the logarithm of both rates.",
    )
    deadline_s: float | None = Field(
        None,
        gt=0,
        le=1e9,
        title="Deadline (s)",
        description="Seconds that the server waits in a round; by default it waits for all participants.",
        json_schema_extra={"unset": "waits for all"},
    )
    over_select: float = Field(
        1.0,
        ge=1,
        le=2,
        title="Over-selection",
        description="Factor by which more clients are sampled than needed; the server keeps the first that report.",
    )
    drop_out: float = Field(
        0.0,
        ge=0,
        lt=1,
        title="Drop-out",
        description="Probability that a participant drops out after training, before its upload arrives.",
    )
    availability: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Probability that a client is available in a round, on average over clients. If none is, one "
        "client still takes part.",
    )
    tie: Literal["none", "labels", "size", "context"] = Field(
        "none",
        title="Common trait of slow clients",
        description="What slow and rarely available clients have in common: high labels, many samples, or their "
        "context. How many are slow stays the same.",
    )
    tie_strength: float = Field(
        1.0, ge=0, le=1, description="How strongly the tie determines speed and availability; 0: chance alone."
    )

    @property
    def takes_time(self) -> bool:
        """Whether anything takes time."""
        return self.compute_s > 0 or self.up_mbit is not None or self.down_mbit is not None

    @property
    def loses_uploads(self) -> bool:
        """Whether the upload of a participant may be left out."""
        return self.deadline_s is not None or self.over_select > 1 or self.drop_out > 0
