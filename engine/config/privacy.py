"""The section ``privacy``: whose presence is hidden, how updates are clipped, and how much noise is added."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from engine.core.registry import Options, Positive


class Privacy(Options):
    """Differential privacy: a bound on what the models that leave a client, or the server, reveal about the data.

    ``unit: client`` hides from everyone whether a client took part (DP-FedAvg; McMahan et al., ICLR 2018);
    ``unit: sample`` hides each sample from everyone but its client (DP-SGD; Abadi et al., CCS 2016).
    """

    exclusive: ClassVar[tuple[tuple[str, str], ...]] = (("noise", "epsilon"),)
    advanced: ClassVar[tuple[str, ...]] = (
        "delta",
        "sampling",
        "population",
        "quantile",
        "clip_lr",
        "count_noise",
        "covers",
    )

    unit: Literal["client", "sample"] = Field(
        "client",
        description="What is hidden: whether a client took part (client), or each sample, from all but its own client "
        "(sample).",
    )
    clip: Positive | Literal["adaptive"] = Field(
        1.0,
        title="C",
        description="Largest norm of what one unit contributes: a client's update or a sample's gradient. adaptive: a "
        "quantile of the clients' norms, estimated privately.",
    )
    noise: float | None = Field(
        None,
        ge=0,
        le=1e6,
        title="z",
        description="Noise multiplier: the standard deviation of the noise, divided by C. By default 1, or what "
        "epsilon requires.",
        json_schema_extra={"unset": "1, or from ε"},
    )
    epsilon: float | None = Field(
        None, gt=0, le=1e6, title="ε", description="ε at the end of the run; give it instead of noise."
    )
    delta: Annotated[float, Field(gt=0, lt=1)] | Literal["auto"] = Field(
        "auto",
        title="δ",
        description="Probability with which the ε guarantee may fail; should be far below 1/n. auto: n^-1.1 with n "
        "clients, or n samples of a client.",
    )
    sampling: Literal["poisson", "fixed"] = Field(
        "poisson",
        description="unit: client: draws participants independently (poisson), or a fixed number of them (fixed), for "
        "which the same noise protects far less.",
    )
    population: int | None = Field(
        None,
        ge=1,
        le=10**12,
        description="unit: client: use the noise and ε of a federation of this many clients with the same "
        "participation.",
    )
    quantile: float = Field(0.5, gt=0, lt=1, description="clip: adaptive: the share of clients that are not clipped.")
    clip_lr: float = Field(
        0.2, gt=0, le=10, description="clip: adaptive: step size of the clipping norm C, on a log scale."
    )
    count_noise: float | None = Field(
        None,
        gt=0,
        le=1e9,
        description="clip: adaptive: standard deviation of the noise on the count of clients that are not clipped; by "
        "default a twentieth of the expected participants (of the population, if given).",
        json_schema_extra={"unset": "automatic"},
    )
    covers: Literal["sent", "all"] = Field(
        "sent",
        description="unit: sample: the models that are trained privately: those on which an upload depends, or all. "
        "With all, methods that make a client's model at evaluation (such as fine-tuning) are refused.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "Privacy":
        if self.noise is not None and self.epsilon is not None:
            raise ValueError("noise and epsilon are mutually exclusive; set only one")
        if self.unit == "sample" and self.clip == "adaptive":
            raise ValueError("clip: 'adaptive' is for unit: client; with unit: sample give a number")
        if self.unit == "sample" and self.population is not None:
            raise ValueError("population is for unit: client; remove it, or use unit: client")
        return self
