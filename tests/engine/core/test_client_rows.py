"""State by client of which only the touched rows exist."""

import os
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.core import client_rows
from engine.core.client_rows import ClientRows, RowMemory, for_clients
from engine.core.errors import Unsupported
from engine.core.params import gather, scatter

START = {"weight": torch.arange(6.0).view(2, 3), "bias": torch.tensor([-1.0, 1.0])}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_rows, "BLOCK_BYTES", 64)
    monkeypatch.setattr(client_rows, "DENSE_BYTES", 0)


def of_start(size: int = 10, limit: int = 10**6) -> ClientRows:
    return ClientRows.of_start(START["weight"], size, RowMemory(limit=limit))


def trained(rows: Tensor, rounds: int, seed: int = 0) -> list[Tensor]:
    """The versions of ``rows`` after each round, in which three clients get random rows."""
    drawn = torch.Generator().manual_seed(seed)
    versions = []
    for _ in range(rounds):
        cohort = torch.randperm(len(rows), generator=drawn)[:3]
        rows = rows.index_copy(0, cohort, torch.randn(3, *rows.shape[1:], generator=drawn))
        versions.append(rows)
    return versions


@pytest.mark.parametrize("limit", [10**6, 128, 0])
def test_rows_equal_an_ordinary_tensor_in_memory_and_in_a_file(limit: int) -> None:
    rows = of_start(limit=limit)
    found, expected = trained(rows, 12), trained(START["weight"].expand(10, 2, 3), 12)
    assert all(torch.equal(a.index_select(0, torch.arange(10)), b) for a, b in zip(found, expected, strict=True))
    assert rows.store.memory.used <= limit and (rows.store.memory.filed > 0) == (limit < 10**6)


def test_only_touched_rows_exist() -> None:
    rows = of_start(1_000_000)
    changed = rows.index_copy(0, torch.tensor([7, 999_999]), torch.ones(2, 2, 3))
    assert changed.shape == (1_000_000, 2, 3) and changed.nbytes == 24_000_000
    assert rows.store.memory.used == 48 and changed.touched.tolist() == [7, 999_999]
    assert torch.equal(changed[999_999], torch.ones(2, 3)) and torch.equal(changed[8], START["weight"])


def test_the_old_version_does_not_change() -> None:
    rows = of_start()
    first = rows.index_copy(0, torch.tensor([1]), torch.ones(1, 2, 3))
    second = first.index_copy(0, torch.tensor([1, 2]), torch.zeros(2, 2, 3))
    assert torch.equal(rows[1], START["weight"]) and (first[1] == 1).all() and (second[1] == 0).all()
    assert torch.equal(first[2], START["weight"])


def test_places_are_used_again_when_no_version_refers_to_them() -> None:
    rows = of_start()
    for _ in range(100):
        rows = trained(rows, 1)[-1]
    assert len(rows.store.serials) <= 8
    kept = trained(rows, 20, seed=1)
    assert len(kept[0].store.serials) > 40


def test_gather_and_scatter_accept_them() -> None:
    state = for_clients(START, 5, RowMemory(limit=0))
    clients = torch.tensor([4, 0])
    new = scatter(state, {n: torch.full_like(p, 3) for n, p in gather(state, clients).items()}, clients)
    assert all(isinstance(p, ClientRows) for p in new.values())
    assert (gather(new, torch.tensor([0]))["bias"] == 3).all()
    assert torch.equal(gather(new, torch.tensor([1, 2]))["bias"], START["bias"].expand(2, 2))


def test_other_operations_see_all_rows() -> None:
    rows = trained(of_start(), 3)[-1]
    whole = rows.index_select(0, torch.arange(10))
    assert torch.equal(rows + 1, whole + 1) and torch.equal(rows[:, 0], whole[:, 0])
    assert torch.equal(rows[torch.tensor([[1, 2], [3, 4]])], whole[torch.tensor([[1, 2], [3, 4]])])
    assert torch.equal(rows[-1], whole[-1]) and torch.equal(torch.stack([rows, rows]).mean(0), whole)


def test_an_operation_on_too_many_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_rows, "WHOLE_BYTES", 200)
    with pytest.raises(Unsupported, match="the state of all 10 clients at once"):
        _ = of_start() + 1


def test_small_state_is_an_ordinary_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_rows, "DENSE_BYTES", 10 * 32)
    assert not any(isinstance(p, ClientRows) for p in for_clients(START, 10, RowMemory()).values())
    assert all(isinstance(p, ClientRows) for p in for_clients(START, 11, RowMemory()).values())


def test_nothing_of_the_file_has_a_name(tmp_path: Path) -> None:
    rows = ClientRows.of_start(START["weight"], 10, RowMemory(limit=0, folder=tmp_path))
    trained(rows, 3)
    assert os.listdir(tmp_path) == [] and rows.store.memory.filed > 0


def test_the_limit_is_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RowMemory().limit == 1024 * 2**20
    monkeypatch.setenv("FEDSCAPE_STATE_MB", "0.5")
    assert RowMemory().limit == 2**19
