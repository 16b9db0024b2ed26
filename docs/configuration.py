"""docs/configuration.md: every key of an experiment, from the schema and the registries.  ``make docs``"""

from collections.abc import Sequence
from pathlib import Path

from docs.catalogue import shipped
from docs.markdown import GENERATED, allowed, default_of, parameters_of, table, type_of
from engine.config.options import Evaluation, Machine, Training
from engine.config.privacy import Privacy
from engine.config.system import System
from engine.config.tune import Tune
from engine.core.registry import (
    AGGREGATORS,
    ALGORITHMS,
    ATTACKS,
    COMPRESSORS,
    DATASETS,
    MODELS,
    PARTITIONERS,
    Options,
    Registry,
)

PAGE = Path(__file__).with_name("configuration.md")
EXAMPLE = """\
name: trade-off on digits
dataset: {name: digits}
partition: {name: classes_per_client, num_clients: 20, classes_per_client: 3, test_fraction: 0.25}
model: {name: mlr}
training: {rounds: 50, participation: 1.0, local_steps: 10, batch_size: 20, lr: 0.05}
algorithms:
  - fedavg                                          # short for {name: fedavg}
  - {name: ditto, sweep: {lam: [0.1, 1, 10]}}       # three runs for each seed
  - {name: cgpfl, K: 4, lam: 12, label: CGPFL K=4}
  - {name: fedavg, label: FedAvg lr=0.1, training: {lr: 0.1}}
seeds: [0, 1, 2]
evaluation: {every: 1}
"""
SECTIONS = {
    "name": ("`experiment`", "Name of the experiment, one line."),
    "dataset": ("required", "Name and options of a [data set](#data-sets)."),
    "partition": ("required", "Name and options of a [partitioner](#partitioners): which samples each client owns."),
    "model": ("required", "Name and options of a [model](#models)."),
    "training": ("`{}`", "How clients [train](#training); an algorithm may override any of it."),
    "algorithms": ("required", "A list of [algorithms](#algorithms), each a name or a mapping."),
    "splits": (
        "each seed its own",
        "A number or a list: seeds of the data, the partition and held-out clients. Every split is run with all seeds.",
    ),
    "seeds": (
        "`[0]`",
        "A number or a list. The seed fixes the initial model, the cohorts and the batches; without `splits` also the "
        "data and the partition.",
    ),
    "tune": ("none", "How settings are [tuned](#tuning). Without it every method is run as written."),
    "evaluation": ("`{}`", "How often models are [evaluated](#evaluation), and on what."),
    "attack": ("no attack", "Name and options of an [attack](#attacks); an algorithm may override it."),
    "aggregator": ("the mean", "Name and options of an [aggregator](#aggregators); an algorithm may override it."),
    "compression": ("none", "Name and options of a [compressor](#compressors); an algorithm may override it."),
    "privacy": ("off", "Differential [privacy](#privacy); an algorithm may override any of it."),
    "system": ("off", "Simulated [devices](#system) and links; an algorithm may override any of it."),
}
ENTRY = {
    "name": ("required", "Name of the algorithm."),
    "label": ("the name", "Label of its runs. A sweep appends its values: `ditto lam=0.1`."),
    "sweep": (
        "`{}`",
        "Lists of values, by option or as `training.lr` and `attack.share`; one run for each combination and seed.",
    ),
    "tune": (
        "the declared search spaces",
        "Search spaces that replace or extend them, by option or as `training.lr`: `[low, high, scale]` with the scale "
        "`log`, `lin`, `int` or `intlog`, or a list of values. A bound may be `clients/2`, `rounds/2` or `layers-1`. "
        "With `{}` nothing is tuned: all trials have the defaults.",
    ),
    "training": ("`{}`", "Overrides of [training](#training) for this algorithm."),
    "attack": (
        "the experiment's",
        "Replaces the experiment's [attack](#attacks); without `name` it changes single options. `null` for none.",
    ),
    "aggregator": (
        "the experiment's",
        "Replaces the experiment's [aggregator](#aggregators); without `name` it changes single options. `null` for "
        "the mean.",
    ),
    "compression": (
        "the experiment's",
        "Replaces the experiment's [compressor](#compressors); without `name` it changes single options. `null` for "
        "none.",
    ),
    "privacy": ("the experiment's", "Overrides of the experiment's [privacy](#privacy); `null` for none."),
    "system": ("the experiment's", "Overrides of the experiment's [devices](#system); `null` for none."),
}
KINDS = {
    "Algorithms": (ALGORITHMS, "algorithms"),
    "Data sets": (DATASETS, "dataset"),
    "Partitioners": (PARTITIONERS, "partition"),
    "Models": (MODELS, "model"),
    "Attacks": (ATTACKS, "attack"),
    "Aggregators": (AGGREGATORS, "aggregator"),
    "Compressors": (COMPRESSORS, "compression"),
}
INTRO = """\
An experiment compares algorithms on one data set, partition and model. It is a YAML or JSON file for
`python -m engine run`, a mapping for `engine.run`, and the configuration that *Set up* edits in the app. An unknown key
is an error that suggests the nearest known key. On the command line `--set training.rounds=100` changes a value; items
of a list are numbered from 0 (`--set algorithms.1.lam=5`)."""
SAME = """\
All algorithms of an experiment see the same partition, initial model, cohorts and batches, so a difference between two
curves is a difference between two algorithms."""

STUDY = """\
name: A study
dataset: digits
partition: {name: classes_per_client, num_clients: 20, classes_per_client: 4, val_fraction: 0.2}
model: {name: dnn, hidden: 32}
training: {rounds: 20}
algorithms: [local_train, fedavg, ditto, {name: fedper, tune: {training.lr: [0.01, 0.3, log]}}]
splits: [0, 1, 2]                                   # seeds of the data
seeds: [0, 1, 2]                                    # seeds of the final runs
tune: {trials: 8}
"""
TUNING = """\
With `tune:` every method is trained with the same number of settings on each split: its defaults, then settings drawn
from its search spaces. Trial k of all methods has the same learning rate. Trials are evaluated on validation data only,
which decides on the best setting. When all are chosen, the defaults and the chosen settings are trained with other
seeds, and only these final runs are evaluated on test data. Options that an entry sets are not tuned.
`python -m engine study ID` shows the choices.

`sampler: tpe` needs Optuna: `.venv/bin/pip install -r requirements-tpe.txt`. Its first 10 trials are those of `sobol`;
from trial 10 on, each follows the method's own results, so trials of a method run one after another, and methods no
longer share their learning rates. Evaluation in federated learning is noisy, and little noise can reduce adaptive
samplers to naive baselines (Kuo et al., On Noisy Evaluation in Federated Hyperparameter Tuning, MLSys 2023)."""


def page() -> str:
    parts = ["# Configuration", GENERATED, INTRO, f"```yaml\n{EXAMPLE}```", SAME, "## Top level", _top_level()]
    parts += ["## Training", "Keys of `training:`.", options_table(Training)]
    parts += ["## Evaluation", "Keys of `evaluation:`.", options_table(Evaluation)]
    parts += ["## Tuning", TUNING, f"```yaml\n{STUDY}```", "Keys of `tune:`.", options_table(Tune)]
    parts += [
        "## Privacy",
        "Keys of `privacy:`. Without it nothing is clipped and no noise added.",
        options_table(Privacy),
    ]
    parts += ["## System", "Keys of `system:`. Without it nothing is simulated.", options_table(System)]
    for title, (registry, key) in KINDS.items():
        parts += [f"## {title}", _where(title, key), *_entries(registry)]
    return "\n\n".join(parts) + "\n"


def options_table(options: type[Options], without: Sequence[str] = ()) -> str:
    """Every option of a class: key, type, default, allowed values, meaning."""
    rows = [
        [f"`{p.name}`", type_of(p), default_of(options, p), allowed(p), p.meaning]
        for p in parameters_of(options)
        if p.name not in without
    ]
    return table(["key", "type", "default", "allowed", "meaning"], rows)


def _top_level() -> str:
    sections = table(["key", "default", "meaning"], ([f"`{key}`", *row] for key, row in SECTIONS.items()))
    machine = "Also at the top level: where and how runs are computed. These change results only by rounding."
    return f"{sections}\n\n{machine}\n\n{options_table(Machine)}"


def _where(title: str, key: str) -> str:
    if title == "Algorithms":
        keys = table(["key", "default", "meaning"], ([f"`{name}`", *row] for name, row in ENTRY.items()))
        return f"Keys of each item of `algorithms:`, together with its own hyper-parameters below.\n\n{keys}"
    text = f"Keys of `{key}:`, together with `name`."
    if shared := _shared(KINDS[title][0]):
        return f"{text} Every {KINDS[title][0].kind} takes these:\n\n{options_table(*shared)}"
    return text


def _shared(registry: Registry) -> tuple[type[Options]] | None:
    """The class with the options that all entries of a kind have, if there is one."""
    bases = [set(entry.options.__mro__) for entry in shipped(registry)]
    common = [base for base in set.intersection(*bases) if issubclass(base, Options) and base.model_fields]
    return (max(common, key=lambda base: len(base.model_fields)),) if common else None


def _entries(registry: Registry) -> list[str]:
    shared = _shared(registry)
    without = tuple(shared[0].model_fields) if shared else ()
    parts = []
    for entry in shipped(registry):
        own = [name for name in entry.options.model_fields if name not in without]
        text = options_table(entry.options, without) if own else "No additional options."
        parts += [f"### `{entry.name}`", f"{entry.title}. {entry.paper.rstrip('.')}.", text]
    return parts
