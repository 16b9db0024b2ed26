"""The export: one JSON document of an experiment's runs, identical from the command line, the app and Python.

``choices`` has the choices of studies; without any, the key is left out. NaN, infinity and absent values are all
``null``, so the document is strict JSON. It is written run by run, so that an export of many runs needs the memory of
one.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO, TextIOBase
from pathlib import Path
from typing import Any

import numpy as np

from engine.core.errors import InvalidConfig
from engine.core.json_values import finite
from engine.core.results import RoundResult, RunResult
from engine.core.vocabulary import COUNTS, DIAGNOSTICS, ENDED, MODEL_KINDS, UNSEEN, select_prefix
from engine.core.writable import check_writable, linked
from engine.export.choices import ChoiceEntry
from engine.metrics import best_round_score

NOTHING = "none of these runs can be exported: they have not ended or were deleted; select others"


def write_export(
    path: Path, config: Mapping[str, Any], runs: Iterable[RunResult], choices: Sequence[ChoiceEntry] = ()
) -> None:
    """Writes the document to a file, atomically. Runs that have not ended are left out.

    A link stays, and the file to which it leads is replaced. Raises InvalidConfig for a folder, pipe or device.
    """
    path = linked(path)
    check_writable(file=path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            _write(file, config, runs, choices)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def export_text(config: Mapping[str, Any], runs: Iterable[RunResult], choices: Sequence[ChoiceEntry] = ()) -> str:
    """The document as text. Raises InvalidConfig if none of the runs has ended: there is nothing to import then."""
    text = StringIO()
    if not _write(text, config, runs, choices):
        raise InvalidConfig([NOTHING])
    return text.getvalue()


def joint_config(configs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The ``config`` of an export: the experiment's own, or ``{"experiments": [...]}`` for several.

    They are in the order in which the runs first refer to them.
    """
    return dict(configs[0]) if len(configs) == 1 else {"experiments": [dict(c) for c in configs]}


def run_document(run: RunResult) -> dict[str, Any]:
    """One entry of ``runs``."""
    provenance = dict(run.provenance or {})
    if run.error:
        provenance["error"] = run.error
    return {
        "experiment": run.experiment,
        "algorithm": run.algorithm,
        "label": run.label,
        "hparams": finite(run.hparams),
        "seed": run.seed,
        **({} if run.data_seed is None else {"data_seed": run.data_seed}),
        **({} if run.study is None else {"study": run.study}),
        "status": run.status,
        "provenance": finite(provenance),
        "partition": finite(run.partition),
        "rounds": [round_document(r) for r in run.rounds],
        "summary": finite(run.summary or summary_of(run.rounds, run.partition, run.status)),
    }


def round_document(r: RoundResult) -> dict[str, Any]:
    """One entry of ``rounds``. Dotted names become nested objects; costs become whole numbers."""
    named: Mapping[str, Any] = {**r.scalars, **r.arrays}
    unseen = select_prefix(UNSEEN, r.arrays)
    costs = {name: _whole(r.scalars.get(name, 0.0)) for name in COUNTS}
    return {
        "round": int(r.round),
        "cohort": r.cohort.tolist(),
        **{model: finite(select_prefix(model, r.arrays)) or None for model in MODEL_KINDS},
        "train_loss": finite(r.arrays.get("train_loss")),
        "clusters": finite(r.clusters),
        **costs,
        "seconds": finite(r.scalars.get("seconds")),
        "diagnostics": finite(select_prefix(DIAGNOSTICS, named)),
        **({UNSEEN: finite(unseen)} if unseen else {}),
    }


def summary_of(rounds: Sequence[RoundResult], partition: Mapping[str, Any] | None, status: str) -> dict[str, Any]:
    """Computes the summary of a run that has none, from its last and best evaluated rounds.

    The round in which a run diverged is never the best, since only clients with finite results count in its mean.
    """
    summary: dict[str, Any] = dict.fromkeys(MODEL_KINDS)
    best: dict[str, Any] = dict.fromkeys(MODEL_KINDS)
    known = partition or {}
    val_sizes, malicious = known.get("val_sizes", ()), known.get("malicious")
    for model in MODEL_KINDS:
        measured = [r for r in rounds if {f"{model}.accuracy", f"{model}.val_accuracy"} & r.arrays.keys()]
        found = [(r, select_prefix(model, r.scalars)) for r in measured]
        if found:
            summary[model] = found[-1][1] or None
            may_be_best = found[:-1] if status == "diverged" and measured[-1] is rounds[-1] else found
            scores = [best_round_score(model, r.scalars, r.arrays, val_sizes, malicious) for r, _ in may_be_best]
            if np.isfinite(scores).any():
                chosen, values = found[int(np.nanargmax(scores))]
                best[model] = {"round": int(chosen.round), **values}
    if rounds and f"{UNSEEN}.accuracy" in rounds[-1].arrays:
        summary[UNSEEN] = select_prefix(UNSEEN, rounds[-1].scalars)
    return {**summary, "best": best}


def _write(
    file: TextIOBase, config: Mapping[str, Any], runs: Iterable[RunResult], choices: Sequence[ChoiceEntry]
) -> int:
    """Writes the document and returns its number of runs."""
    number = 0
    file.write(f'{{"config": {_json(finite(config))},\n"runs": [')
    for number, text in enumerate(map(_json, _run_documents(runs, "experiments" in config)), 1):
        file.write(f"{',' if number > 1 else ''}\n{text}")
    file.write("\n]")
    if choices:
        file.write(f',\n"choices": {_json([choice.model_dump(mode="json") for choice in choices])}')
    file.write("}\n")
    return number


def _run_documents(runs: Iterable[RunResult], has_several: bool) -> Iterator[dict[str, Any]]:
    """The entries of ``runs``. With several experiments, each has its index in ``config.experiments``."""
    indices: dict[int | None, int] = {}
    for run in runs:
        index = indices.setdefault(run.experiment_id, len(indices))
        if run.status in ENDED:
            has_index = has_several and run.experiment_id is not None
            yield run_document(run) | ({"experiment_index": index} if has_index else {})


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, default=str)  # str: for dates in a YAML config


def _whole(value: float) -> int | float | None:
    return int(value) if np.isfinite(value) and value == int(value) else finite(value)
