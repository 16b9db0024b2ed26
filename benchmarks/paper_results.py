"""Ships results of presets: ``python -m benchmarks.paper_results EXPORT.json ... [--db URL]``

    python -m engine run --preset cgpfl-fig3 --scale quick --export fig3.json
    python -m benchmarks.paper_results fig3.json

Writes assets/examples/papers/<preset>.<scale>.json for every preset and scale whose runs are all among those of the
exports, each with what the figures of *Papers* need: the last round of every client, the curves that a figure draws,
and what the run spent. Runs are found by their digests, so one export may serve several presets. A figure that only the
page of a run draws is left out. With ``--db``, analyses that a figure needs are read from this database, which has the
runs and their models; missing ones are computed first.
"""

import argparse
import json
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from app.data.averages import mean_of_known
from app.data.preset_catalog import experiments
from app.data.shipped import FOLDER
from app.data.thinning import evenly
from app.papers.figures import panels_of
from engine.config.presets import Preset, presets
from engine.config.schema import RunConfig
from engine.core.findings import Findings
from engine.core.results import RoundResult, RunResult
from engine.core.vocabulary import COSTS, MODEL_KINDS, MODELS_OF
from engine.export.reading import read_export
from engine.worker import Dispatcher, LocalExecutor
from storage import RunRecord, Store


class Needed(NamedTuple):
    """What the figure of a panel needs from an analysis; without ``options`` those of the page of a run."""

    arrays: tuple[str, ...]
    rounded: Callable[[np.ndarray], np.ndarray]
    options: Mapping[str, Any] = {}


def to_tenths(values: np.ndarray) -> np.ndarray:
    return np.round(values.astype(float), 1)


def to_digits(values: np.ndarray) -> np.ndarray:
    return np.vectorize(short, otypes=[float])(values)


CURVES = {  # panel -> of the personalized model
    "over_time": ("personalized.mean", "personalized.lowest5"),
    "effort": ("personalized.mean", "personalized.total_error"),
    "effort_by_error": ("personalized.mean", "personalized.total_error"),
}
ANALYSES = {  # by panel, which has the name of the kind of analysis
    "features": Needed(("tsne", "label", "client"), to_tenths),
    "landscape": Needed(  # 41 x 41 points of a convolutional network take hours
        ("axis", "global_own", "personalized_own", "global_everyone", "personalized_everyone"),
        to_digits,
        {"points": 21, "samples": 200},
    ),
}
MEANS = ("total_error", "common_accuracy")
LAST = ("diagnostics.K_hat", "diagnostics.statistical_error_local", "diagnostics.statistical_error_global")
MAX_POINTS = 101
DIGITS = 4
Found = Mapping[str, tuple[RunConfig, RunResult]]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exports", nargs="+", type=Path)
    parser.add_argument("--db", help="the database with analyses of these runs")
    given = parser.parse_args(arguments)
    store = Store(given.db) if given.db else None
    found = {
        config.digest: (config, result)
        for path in given.exports
        for experiment in read_export(path)
        for config, result in experiment.runs
        if result.status == "done"
    }
    FOLDER.mkdir(exist_ok=True)
    for preset in (preset for preset in presets() if not preset.view or preset.view.panels):
        for scale in preset.scales:
            wanted = [run.digest for experiment in experiments(preset, scale) for run in experiment.runs()]
            if all(digest in found for digest in wanted):
                if store:
                    compute_missing(store, wanted, analyses_of(preset))
                path = FOLDER / f"{preset.name}.{scale}.json"
                path.write_text(document(preset, scale, [found[digest] for digest in wanted], store), encoding="utf-8")
                print(f"{path.stat().st_size:>9,} bytes  {path.name}, {len(wanted)} runs")


def document(preset: Preset, scale: str, runs: Iterable[tuple[RunConfig, RunResult]], store: Store | None) -> str:
    """One line for each run."""
    names = [name for panel in panels_of(preset) for name in CURVES.get(panel, ())]
    kinds = analyses_of(preset)
    clients: list[dict[str, Any]] = []
    entries = [entry(config, result, names, clients) | analyses(store, config.digest, kinds) for config, result in runs]
    lines = [json.dumps(one, separators=(",", ":")) for one in entries]
    head = {"command": f"python -m engine run --preset {preset.name} --scale {scale}", "clients": clients}
    return json.dumps(head)[:-1] + ', "runs": [\n' + ",\n".join(lines) + "\n]}\n"


def entry(config: RunConfig, result: RunResult, names: Sequence[str], clients: list[dict[str, Any]]) -> dict[str, Any]:
    """A run. Runs with the same clients share one of ``clients``."""
    split, provenance = result.partition or {}, result.provenance or {}
    own = {"dataset_fingerprint": provenance["dataset_fingerprint"], "test_sizes": split["test_sizes"]}
    own |= {name: split[name] for name in ("contexts", "class_names", "malicious") if split.get(name)}
    if own not in clients:
        clients.append(own)
    last, sizes = result.rounds[-1], np.array(split["test_sizes"])
    shown = drawn(result.rounds) if names else [last]
    return {
        "digest": config.digest,
        "clients": clients.index(own),
        "correct": {
            m: counts(last.arrays[f"{m}.accuracy"], sizes) for m in MODEL_KINDS if f"{m}.accuracy" in last.arrays
        },
        "means": {name: at(last, name) for model in MODEL_KINDS for name in of(model, MEANS) if name in last.arrays},
        "last": {name: short(last.scalars[name]) for name in LAST if name in last.scalars},
        "rounds": [one.round for one in shown],
        "series": curves(shown, names) | spent(result.rounds, shown),
        **clusters(result.rounds),
    }


def analyses_of(preset: Preset) -> dict[str, Needed]:
    return {kind: ANALYSES[kind] for kind in panels_of(preset) if kind in ANALYSES}


def compute_missing(store: Store, digests: Sequence[str], kinds: Mapping[str, Needed]) -> None:
    """Computes the analyses of these runs that the database lacks, and whatever else is queued there."""
    for run in with_models(store, digests) if kinds else ():
        for kind, needed in kinds.items():
            store.analyses.request(run.id, kind, dict(needed.options))
    if store.analyses.active():
        with Dispatcher.acquire(store, LocalExecutor()) as dispatcher:
            dispatcher.run(threading.Event(), until_idle=True)


def with_models(store: Store, digests: Sequence[str]) -> list[RunRecord]:
    return [run for run in store.queue.find_by_digest(digests) if store.artifacts.latest(run.id, MODELS_OF["last"])]


def analyses(store: Store | None, digest: str, kinds: Mapping[str, Needed]) -> dict[str, Any]:
    """The arrays of each kind that its figure needs."""
    found = {}
    for run in store.queue.find_by_digest([digest]) if store and kinds else ():
        for kind, needed in kinds.items():
            done = store.analyses.find(run.id, kind, dict(needed.options)) if store else None
            artifact = store.artifacts.get(done.artifact_id) if store and done and done.artifact_id else None
            if store and artifact:
                own = Findings.from_bytes(store.artifacts.read(artifact))
                arrays = {name: needed.rounded(own.arrays[name]).tolist() for name in needed.arrays}
                found[kind] = {"arrays": arrays, "values": own.values}
    return {"analyses": found} if found else {}


def drawn(rounds: Sequence[RoundResult]) -> list[RoundResult]:
    evaluated = [one for one in rounds if "personalized.accuracy" in one.arrays]
    return [evaluated[i] for i in evenly(len(evaluated), MAX_POINTS)]


def counts(accuracy: np.ndarray, sizes: np.ndarray) -> list[int]:
    """The number of correct samples of each client."""
    correct = np.nan_to_num(accuracy.astype(np.float64) * sizes)
    assert np.allclose(correct, correct.round(), atol=0.01)
    return correct.round().astype(int).tolist()


def curves(shown: Sequence[RoundResult], names: Sequence[str]) -> dict[str, list[float]]:
    """Those that all rounds have."""
    return {name: [at(one, name) for one in shown] for name in names if all(has(one, name) for one in shown)}


def spent(rounds: Sequence[RoundResult], shown: Sequence[RoundResult]) -> dict[str, list[float]]:
    """Each cost since the round before; one number for all rounds after the first if they cost the same."""
    ends, found = [one.round for one in shown], {}
    for cost in COSTS:
        total = np.cumsum([one.scalars.get(cost, 0.0) for one in rounds])[ends]
        first, *rest = [short(value) for value in np.diff(total, prepend=0.0)]
        found[cost] = [first, *(rest[:1] if len(set(rest)) == 1 else rest)]
    return found


def clusters(rounds: Sequence[RoundResult]) -> dict[str, Any]:
    """Labels from the first round, wherever one changes."""
    found: dict[str, list[int]] = {}
    for one in rounds:
        labels = None if one.clusters is None else one.clusters.tolist()
        if labels is not None and labels != next(reversed(found.values()), None):
            found[str(one.round)] = labels
    return {"clusters": found} if found else {}


def of(model: str, names: Iterable[str]) -> list[str]:
    return [f"{model}.{name}" for name in names]


def has(one: RoundResult, name: str) -> bool:
    return name in one.scalars or name in one.arrays


def at(one: RoundResult, name: str) -> float:
    """A scalar, or the mean of an array over the clients."""
    value = one.scalars[name] if name in one.scalars else float(mean_of_known(one.arrays[name][None])[0])
    return short(value)


def short(value: float) -> float:
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


if __name__ == "__main__":
    main(sys.argv[1:])
