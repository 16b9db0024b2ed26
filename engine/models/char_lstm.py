"""An LSTM that predicts the next character: an embedding of each character, LSTM layers, an output layer.

The next-character model of McMahan et al. (AISTATS 2017) and LEAF: 8 numbers for each character and 2 layers of 256
units. The output layer sees the last hidden state. Body: up to there; head: the output layer.
"""

from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor, nn

from engine.core.registry import MODELS
from engine.models import FasterAlone, SplitModel
from engine.models.sequences import CharacterEmbedding, CharacterOptions, Last, text_length


class CharLstmOptions(CharacterOptions):
    dim: int = Field(8, ge=1, le=1024, description="Length of an embedding.")
    hidden: int = Field(256, ge=1, le=4096, description="Units of each LSTM layer.")
    num_layers: int = Field(2, ge=1, le=8, title="Layers", description="Number of LSTM layers.")


class LstmLayer(nn.LSTMCell, FasterAlone):
    """[B, L, inputs] -> [B, L, hidden]: ``nn.LSTM`` with one layer.

    ``vmap`` cannot stack PyTorch's own over clients, so the steps are computed one by one, and the products with the
    inputs for all of them at once. A client that is computed alone calls PyTorch's own: half the time.
    """

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]  # a sequence, not a step
        return self._in_one_call(x) if self.is_alone else self._step_by_step(x)

    def _in_one_call(self, x: Tensor) -> Tensor:
        start = x.new_zeros(1, len(x), self.hidden_size)
        weights = [self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh]
        states, _, _ = torch.lstm(
            x,
            (start, start),
            weights,
            has_biases=True,
            num_layers=1,
            dropout=0.0,
            train=True,
            bidirectional=False,
            batch_first=True,
        )
        return states

    def _step_by_step(self, x: Tensor) -> Tensor:
        of_inputs = nn.functional.linear(x, self.weight_ih, self.bias_ih + self.bias_hh)
        hidden = cell = torch.zeros_like(of_inputs[:, 0, : self.hidden_size])
        states = []
        for step in of_inputs.unbind(1):
            i, f, g, o = (step + hidden @ self.weight_hh.mT).chunk(4, -1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            states.append(hidden)
        return torch.stack(states, 1)


@MODELS.register("char_lstm", title="LSTM (characters)", paper="McMahan et al. AISTATS 2017; LEAF (Caldas et al. 2018)")
@dataclass(frozen=True)
class CharLstm:
    options: CharLstmOptions

    @property
    def num_layers(self) -> int:
        """The embedding, the LSTM layers, the output layer."""
        return 1 + self.options.num_layers + 1

    def build(self, input_shape: tuple[int, ...], num_classes: int) -> SplitModel:
        length, o = text_length("char_lstm", input_shape), self.options
        layers = [LstmLayer(o.dim if i == 0 else o.hidden, o.hidden) for i in range(o.num_layers)]
        body = nn.Sequential(CharacterEmbedding(o.vocabulary, o.dim), *layers, Last())
        return SplitModel(body, nn.Linear(o.hidden, num_classes), widest=4 * length * o.hidden)
