"""What a state may contain to be stored in a checkpoint."""

from typing import Any

import pytest
import torch

from engine.simulation.checkpoint_codec import from_bytes, to_bytes

ONE, TWO = torch.ones(1), torch.full((2,), 2.0)


def test_nested_values_are_restored() -> None:
    state = {"a": {"b": ONE, "c.d": [1, None, "x"]}, "": (TWO,)}
    restored, _ = from_bytes(to_bytes(state), __name__, torch.device("cpu"))
    assert restored == {"a": {"b": ONE, "c.d": [1, None, "x"]}, "": (restored[""][0],)}
    assert torch.equal(restored[""][0], TWO)


def test_keys_may_contain_what_separates_them_in_the_names_of_tensors() -> None:
    state = {"a/b": ONE, "a": {"b": TWO}, "a~1b": TWO + 1, "p/90": 0.5}
    restored, _ = from_bytes(to_bytes(state), __name__, torch.device("cpu"))
    assert torch.equal(restored["a/b"], ONE) and torch.equal(restored["a"]["b"], TWO)
    assert torch.equal(restored["a~1b"], TWO + 1) and restored["p/90"] == 0.5


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"centers": {1: ONE}}, r"must be a string, not 1 \(at /centers\)"),
        ({None: ONE}, r"must be a string, not None \(at the top\)"),
        ({"a": object()}, r"must not contain a object \(at /a\)"),
    ],
)
def test_what_could_not_be_restored_is_refused(state: dict[Any, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        to_bytes(state)
