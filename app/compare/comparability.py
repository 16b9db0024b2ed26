"""Whether methods can be compared: what must be equal, what should be, and what differs, in words."""

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from app.data import config_fields
from app.data.comparison import Method, SplitSeed, is_final, method_name, run_name, split_seed_of
from app.wording import clients, names, plural
from engine.core.run_json import recorded
from storage import RunRecord


def conflicts(methods: Sequence[Method]) -> list[str]:
    """Differences that make numbers incomparable: other data, or other clients. ``RunRecord.partition`` is needed."""
    found = []
    if (data := _parts_apart(methods, "dataset")) is not None:
        found.append(f"The data sets differ: {data}. Their accuracies answer different questions.")
    elif split_seeds := _where_apart(methods, lambda run: recorded(run.provenance).dataset_fingerprint):
        found.append(f"The data set changed between runs for {_words(split_seeds)} (its fingerprint differs).")
    if (splits := _parts_apart(methods, "partition")) is not None:
        found.append(f"The partitions differ: {splits}. Clients with the same number are not the same clients.")
    elif not found and (split_seeds := _where_apart(methods, _clients)):
        found.append(f"The same partition gave different clients for {_words(split_seeds)}; rerun these methods.")
    return found


def notes(methods: Sequence[Method]) -> list[str]:
    """Notes on runs that may be compared."""
    found = []
    if (models := _parts_apart(methods, "model")) is not None:
        found.append(f"The models differ: {models}.")
    if (rounds := _apart(methods, lambda run: plural(run.rounds, "round"))) is not None:
        found.append(f"The numbers of rounds differ: {rounds}.")
    if (evaluated := _apart(methods, _evaluated)) is not None:
        found.append(f"The evaluated clients differ: {evaluated}. Their means are over different clients.")
    if len({method.draws for method in methods}) > 1:
        found.append(f"The seeds differ: {_with_split_seeds({method.name: method.draws for method in methods})}.")
    if chosen := [
        method.name for method in methods if len({_settings(run) for run in method.runs if is_final(run)}) > 1
    ]:
        found.append(f"The study chose settings for {names(chosen)} per split; those of the first split are shown.")
    found += _benign(methods)
    for method in methods:
        found += [f"{method.name}, {run.seeds_in_words}: {_state(run)}." for run in method.runs if run.status != "done"]
    return found


def missing(runs: Sequence[RunRecord]) -> list[str]:
    """Sentences on chosen runs without rounds: how many are pending, and which have ended for the same reason."""
    without = [run for run in runs if run.round < 0]
    coming = [run for run in without if not run.is_finished]
    found = [f"{plural(len(coming), 'run')} pending; results appear after the first round."] if coming else []
    ended: dict[tuple[str, str], list[RunRecord]] = defaultdict(list)
    for run in without:
        if run.is_finished:
            ended[run.status, run.error or ""].append(run)
    return found + [_ended(status, error, own) for (status, error), own in ended.items()]


def _ended(status: str, error: str, runs: Sequence[RunRecord]) -> str:
    """``FedAvg, seed 0: failed before its first round (no data).``, and ``Ditto (seeds 0 and 1): ...`` for several."""
    reason = f" ({error})" if error else ""
    if len(runs) == 1:
        return f"{run_name(runs[0])}: {status} before its first round{reason}."
    split_seeds: dict[str, list[SplitSeed]] = defaultdict(list)
    for run in runs:
        split_seeds[method_name(run.label, run.algorithm)].append(split_seed_of(run))
    return f"{_with_split_seeds(split_seeds)}: {status} before their first round{reason}."


def _with_split_seeds(split_seeds: Mapping[str, Sequence[SplitSeed]]) -> str:
    """``FedAvg and Ditto (seeds 0 and 1); CGPFL (seed 0)``."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, own in split_seeds.items():
        groups[_words(sorted(own))].append(name)
    return "; ".join(f"{names(own)} ({words})" for words, own in groups.items())


def same_clients(a: Method, b: Method) -> bool:
    """Whether client i of a split is the same in both, so that differences per client mean something."""
    return not conflicts([a, b])


def _apart(methods: Sequence[Method], what: Callable[[RunRecord], str]) -> str | None:
    """``FedAvg and Ditto (this); CGPFL (that)``, or None where all are equal."""
    groups = _groups(methods, what)
    return None if len(groups) < 2 else "; ".join(f"{names(own)} ({value})" for value, own in groups.items())


def _parts_apart(methods: Sequence[Method], section: str) -> str | None:
    """``FedAvg (Dirichlet, α = 0.1); CGPFL (Dirichlet, α = 1)``: that part's name, and its fields that differ."""
    groups = _groups(methods, lambda run: _json(run.config[section]))
    if len(groups) < 2:
        return None
    parts: dict[str, Mapping[str, Any]] = {value: json.loads(value) for value in groups}
    fields = dict.fromkeys(field for part in parts.values() for field in part if field != "name")
    varied = [field for field in fields if len({_json(part.get(field)) for part in parts.values()}) > 1]
    shown = {
        value: [
            config_fields.text(f"{section}.name", part["name"]),
            *(config_fields.setting_in_words(section, field, part) for field in varied if field in part),
        ]
        for value, part in parts.items()
    }
    return "; ".join(f"{names(own)} ({', '.join(shown[value])})" for value, own in groups.items())


def _groups(methods: Sequence[Method], what: Callable[[RunRecord], str]) -> dict[str, list[str]]:
    """value -> the methods with a run that has it."""
    groups: dict[str, list[str]] = defaultdict(list)
    for method in methods:
        for value in dict.fromkeys(what(run) for run in method.runs):
            groups[value].append(method.name)
    return groups


def _where_apart(methods: Sequence[Method], what: Callable[[RunRecord], Hashable]) -> list[SplitSeed]:
    """Splits and seeds whose runs differ in ``what``; runs where it is unknown are ignored."""
    seen: dict[SplitSeed, set[Hashable]] = defaultdict(set)
    for run in (run for method in methods for run in method.runs):
        seen[split_seed_of(run)].add(what(run))
    return sorted(split_seed for split_seed, kinds in seen.items() if len(kinds - {None}) > 1)


def _clients(run: RunRecord) -> str | None:
    return _json([run.partition.get(k) for k in ("test_sizes", "class_counts")]) if run.partition else None


def _evaluated(run: RunRecord) -> str:
    """``all``, or ``a sample of 3``."""
    sample, sizes = (run.config.get("evaluation") or {}).get("clients"), (run.partition or {}).get("test_sizes")
    return "all" if sample is None or (sizes and sample >= len(sizes)) else f"a sample of {sample}"


def _words(split_seeds: Sequence[SplitSeed]) -> str:
    """``seeds 0 and 1``; where data have seeds of their own ``split 0 (seeds 0 and 1) and split 1 (seed 0)``."""
    if all(split == seed for split, seed in split_seeds):
        return _seed_words([seed for _, seed in split_seeds])
    seeds: dict[int, list[int]] = defaultdict(list)
    for split, seed in split_seeds:
        seeds[split].append(seed)
    return names(f"split {split} ({_seed_words(own)})" for split, own in seeds.items())


def _seed_words(seeds: Sequence[int]) -> str:
    return f"seed {names(map(str, seeds))}" if len(seeds) == 1 else f"seeds {names(map(str, seeds))}"


def _settings(run: RunRecord) -> str:
    return _json([run.config["algorithm"], run.config["training"]])


def _benign(methods: Sequence[Method]) -> list[str]:
    """How many clients the summaries are about, where malicious ones are left out."""
    groups: dict[tuple[int, int], list[str]] = defaultdict(list)
    for method in methods:
        for run in method.runs:
            known = (run.partition or {}).get("malicious") or ()
            groups[sum(known), len(known)].append(method.name)
    of_all = len(groups) == 1
    return [
        f"{malicious} of {count} clients {'is' if malicious == 1 else 'are'} malicious"
        f"{'' if of_all else f' under {names(own)}'}: summaries are of {clients(count - malicious, True)}."
        for (malicious, count), own in groups.items()
        if malicious
    ]


def _state(run: RunRecord) -> str:
    if run.status == "diverged":
        reason = f" ({run.error})" if run.error else ""
        return f"diverged at round {run.round}{reason}; its means are over clients whose models are still finite"
    return f"{run.status} at round {run.round} of {run.rounds}; its last evaluated round is used"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
