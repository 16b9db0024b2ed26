"""Printed results of a paper: a table in assets/papers/, and the run of a preset for each cell.

    table: cgpfl_table1.csv
    measures: {accuracy: weighted_mean}                 column -> summary of a run
    methods: {CGPFL (K=4): CGPFL K=4}                   name in the table -> label of a run
    experiments: {MNIST MLR: {dataset: MNIST}}          name of an experiment -> filter of its rows

A label may refer to a column of its row: ``pFedMe lam={lambda}``. A method whose rows evaluate the global model is
written ``{label: PLGU-LF, model: global}``, unless the table has a column ``evaluated_model``.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.paths import ASSETS
from engine.core.registry import METRICS
from engine.core.vocabulary import MODEL_KINDS

FOLDER = ASSETS / "papers"
_KEYS = {"table", "measures", "methods", "experiments"}


@dataclass(frozen=True)
class Cell:
    """One printed number, as a fraction; None if the source is illegible."""

    experiment: str
    label: str
    model: str
    measure: str
    value: float | None
    table: str | None  # the table's number, if a file has several


@dataclass(frozen=True)
class Published:
    """A table, and the mapping of its cells to the runs of a preset."""

    file: str
    rows: tuple[dict[str, str], ...]
    measures: dict[str, str]
    methods: dict[str, tuple[str, str]]  # name in the table -> (label, model)
    experiments: dict[str, dict[str, str]]

    def cells(self, experiment: str) -> list[Cell]:
        """The printed numbers of an experiment, in table order."""
        where = self.experiments.get(experiment)
        if where is None:
            return []
        return [
            Cell(experiment, *self._run(row), measure, _fraction(row[column]), row.get("table"))
            for row in self.rows
            if row["algorithm"] in self.methods and _matches(row, where)
            for column, measure in self.measures.items()
        ]

    def _run(self, row: Mapping[str, str]) -> tuple[str, str]:
        label, model = self.methods[row["algorithm"]]
        return label.format_map(row), row.get("evaluated_model", model)


def read(raw: Any, folder: Path = FOLDER) -> tuple[tuple[Published, ...], list[str]]:
    """Parses the ``paper`` part of a preset, one table or a list; returns a message for each mistake."""
    parts = [_read(part, folder) for part in (raw if isinstance(raw, list) else [raw])]
    return tuple(table for table, _ in parts if table), [problem for _, found in parts for problem in found]


def _read(raw: Any, folder: Path) -> tuple[Published | None, list[str]]:
    if not isinstance(raw, Mapping) or set(raw) != _KEYS or not all(raw.values()):
        return None, [f"paper: must have exactly the keys {', '.join(sorted(_KEYS))}"]
    path = folder / Path(str(raw["table"])).name
    if not path.is_file():
        return None, [f"paper.table: {raw['table']!r} is not a file in {folder.name}/"]
    with path.open(newline="", encoding="utf-8") as file:
        rows = tuple(csv.DictReader(file))
    experiments = {str(name): {k: str(v) for k, v in where.items()} for name, where in raw["experiments"].items()}
    methods = {str(name): _method(method) for name, method in raw["methods"].items()}
    published = Published(path.name, rows, dict(raw["measures"]), methods, experiments)
    return published, _problems(published)


def _method(raw: Any) -> tuple[str, str]:
    if isinstance(raw, Mapping):
        return str(raw.get("label", "")), str(raw.get("model", "personalized"))
    return str(raw), "personalized"


def _problems(published: Published) -> list[str]:
    columns, named = set(published.rows[0]), {row["algorithm"] for row in published.rows}
    checks = [
        ("measures", set(published.measures), columns),
        ("measures", set(published.measures.values()), set(METRICS.names())),
        ("methods", set(published.methods), named),
        ("methods", {model for _, model in published.methods.values()}, set[str](MODEL_KINDS)),
        ("experiments", {key for where in published.experiments.values() for key in where}, columns),
    ]
    found = [
        f"paper.{key}: unknown {', '.join(sorted(given - known))}; {published.file} has {', '.join(sorted(known))}"
        for key, given, known in checks
        if given - known
    ]
    if found:
        return found
    empty = [name for name in published.experiments if not published.cells(name)]
    return [f"paper.experiments: no row of {published.file} is for {name!r}" for name in empty]


def _matches(row: Mapping[str, str], where: Mapping[str, str]) -> bool:
    return all(row[column] == value for column, value in where.items())


def _fraction(text: str) -> float | None:
    return float(text) / 100 if text.strip() else None
