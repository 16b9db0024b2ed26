"""The checks of shapes and types that all tests of the engine rely on."""

from dataclasses import dataclass

import pytest
import torch
from beartype.roar import BeartypeCallHintParamViolation, BeartypeCallHintReturnViolation
from jaxtyping import Float
from torch import Tensor

from engine.core.params import broadcast
from engine.federation.batches import Batch
from tests.shapes import MOST_CALLS, checked

Row = Float[Tensor, "F"]
Column = Float[Tensor, "M"]
Matrix = Float[Tensor, "M F"]


@checked
def product(matrix: Matrix, row: Row) -> Column:
    return (matrix @ row).repeat(2 if matrix.sum() > 100 else 1)


@dataclass
class Named:
    name: str
    rows: dict[str, Row]


checked(Named)


def test_a_letter_has_one_value_in_a_call() -> None:
    assert product(torch.ones(2, 3), torch.ones(3)).tolist() == [3, 3]
    assert product(torch.ones(2, 4), torch.ones(4)).tolist() == [4, 4]
    with pytest.raises(BeartypeCallHintParamViolation, match="row"):
        product(torch.ones(2, 3), torch.ones(2))
    with pytest.raises(BeartypeCallHintParamViolation, match="matrix"):
        product(torch.ones(2, 3, dtype=torch.int64), torch.ones(3))
    with pytest.raises(BeartypeCallHintReturnViolation):
        product(torch.full((2, 3), 100.0), torch.ones(3))


def test_a_call_within_a_call_has_its_own_letters() -> None:
    @checked
    def twice(matrix: Matrix, column: Column) -> Row:
        return product(matrix.T.contiguous(), column)

    assert twice(torch.ones(3, 2), torch.ones(3)).tolist() == [3, 3]
    with pytest.raises(BeartypeCallHintParamViolation, match="twice"):
        twice(torch.ones(3, 2), torch.ones(2))


def test_the_first_calls_of_a_test_are_checked() -> None:
    whole_numbers = torch.ones(2, 3, dtype=torch.int64), torch.ones(3, dtype=torch.int64)
    for _ in range(MOST_CALLS):
        with pytest.raises(BeartypeCallHintParamViolation, match="matrix"):
            product(*whole_numbers)
    assert product(*whole_numbers).tolist() == [3, 3]


def test_a_dataclass_checks_its_fields() -> None:
    assert Named("w", {"w": torch.ones(2)}).name == "w"
    with pytest.raises(BeartypeCallHintParamViolation, match="name"):
        Named(1, {})
    with pytest.raises(BeartypeCallHintParamViolation, match="rows"):
        Named("w", {"w": torch.ones(2, 2)})


def test_an_int_is_a_float_and_an_unknown_type_is_any() -> None:
    @checked
    def half(x: float, unknown: "Nowhere", row: Row) -> float:  # noqa: F821
        return x / 2

    assert half(3, object(), torch.ones(1)) == 1.5
    with pytest.raises(BeartypeCallHintParamViolation):
        half("3", object(), torch.ones(1))


def test_the_engine_is_checked() -> None:
    with pytest.raises(BeartypeCallHintParamViolation):
        broadcast({"w": torch.ones(2)}, "4")
    with pytest.raises(BeartypeCallHintParamViolation):
        Batch(torch.ones(2, 3, 4), torch.ones(2, 3), None, (3, 3))  # labels are whole numbers
