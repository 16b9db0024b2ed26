"""Label poisoning: malicious clients train as they should, but on wrong labels.

Attack A1 of Li, Hu, Beirami, Smith. Ditto: Fair and Robust Federated Learning Through Personalization. ICML 2021.
https://arxiv.org/abs/2012.04221

    y <- a random class, C - 1 - y, or y + 1 mod C        the training labels of a malicious client
    Delta_i as trained
"""

from dataclasses import dataclass

from pydantic import Field

from engine.attacks import HOW, Attack, AttackOptions, Poison
from engine.core.registry import ATTACKS


class LabelOptions(AttackOptions):
    how: Poison = Field("random", title="New labels", description=f"New training labels of malicious clients. {HOW}")


@ATTACKS.register("labels", title="Wrong labels", paper="Li et al., ICML 2021, attack A1")
@dataclass(frozen=True)
class Labels(Attack):
    options: LabelOptions

    @property
    def poison(self) -> Poison:
        return self.options.how
