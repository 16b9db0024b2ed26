"""Generated text is as the code has it."""

import pytest

from docs.generate import README, updated


def test_the_tables_of_the_readme_are_up_to_date() -> None:
    text = README.read_text()
    assert updated(text) == text, "run `make docs` and commit README.md"


def test_a_table_without_its_place_is_missed() -> None:
    with pytest.raises(ValueError, match="no place for the algorithms"):
        updated("# A README without tables")
