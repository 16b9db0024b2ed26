"""The methods of the handbook: searched, compared, and opened in Set up."""

import html
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from app.data.entry_text import needs, text_of
from app.handbook.measured import NETWORK, WITH_NORMALIZATIONS, Measured, needs_public_samples, takes_linear_model
from app.handbook.prose import capitalized, sentences
from app.state.links import link
from app.wording import MISSING
from engine.core.registry import ALGORITHMS, Entry

TEXTS = {"Sent": "Sent", "Kept": "Kept on the client", "Needs": "Needs"}
"""Labels of the docstring, and their columns."""
NUMBERS = ("Models", "Down", "Up", "Gradients")
SETTINGS = {"cfl": {"eps1": 0.1, "eps2": 0.2}}  # with its defaults, CFL splits no cluster in ``experiment``
COLUMNS = ("Method", *TEXTS.values(), *NUMBERS)


def matching(entries: Iterable[Entry], words: str) -> list[Entry]:
    """Entries that contain all of the words in name, source, family, docstring or options."""
    terms = words.casefold().split()
    return [entry for entry in entries if all(word in _everything(entry) for word in terms)]


def comparison_table(families: dict[str, list[Entry]], known: dict[str, Measured | None]) -> str:
    """HTML: a body per family, a row per method; dots for numbers that are not ``known`` yet."""
    head = "".join(f"<th scope='col'>{column}</th>" for column in COLUMNS)
    bodies = "".join(_family(family, entries, known) for family, entries in families.items())
    return f'<div class="scrolled"><table class="handbook methods"><thead><tr>{head}</tr></thead>{bodies}</table></div>'


def times(value: float, is_mean: bool = False) -> str:
    """``0``, ``0.86 ×``, ``≈ 1.6 ×``: a multiple of the model size, or of FedAvg's round; maybe a mean over rounds."""
    if value == 0:
        return "0"
    return f"≈ {value:.2g} ×" if is_mean else f"{value:.3g} ×"


def experiment(entry: Entry) -> dict[str, Any]:
    """The method with FedAvg and LocalTrain, for Set up.

    Each client has 3 of the digits. For a method that looks for groups of clients there are 4 groups instead, whose
    images are turned by 0, 90, 180 and 270 degrees.
    """
    names = list(dict.fromkeys(["fedavg", "local_train", entry.name]))
    public = {"public_fraction": 0.1} if needs_public_samples(entry.name) else {}
    model = _model(entry)
    num_clients, rounds = (10, 20) if model is WITH_NORMALIZATIONS else (20, 50)  # such a network is slow
    takes_epochs = "local_epochs" in needs(entry)
    sizes = {"sizes": [20, 160]} if takes_epochs else {}
    local = {"local_epochs": 2} if takes_epochs else {"local_steps": 10}
    split: dict[str, Any] = {"name": "classes_per_client", "num_clients": num_clients, "classes_per_client": 3}
    if _looks_for_groups(entry):
        split = {"name": "feature_shift", "num_clients": num_clients, "num_groups": 4}
    return {
        "dataset": {"name": "digits"},
        "partition": split | sizes | public,
        "model": model,
        "training": {"rounds": rounds, "participation": 1.0, **local, "batch_size": 20, "lr": 0.05},
        "algorithms": [{"name": name} | SETTINGS.get(name, {}) for name in names],
        "seeds": [0, 1],
        "evaluation": {"every": 1},
    }


def _looks_for_groups(entry: Entry) -> bool:
    """Whether it records how well its clusters match the true ones."""
    return bool(re.search(r"\bari\b", text_of(entry).labeled.get("Diagnostics", "")))


def _model(entry: Entry) -> dict[str, Any]:
    """The smallest model on which the method differs from FedAvg and LocalTrain, by what its docstring needs."""
    needed = needs(entry)
    if "normalizations" in needed:
        return WITH_NORMALIZATIONS
    has_parts = "body" in needed or "layers" in needed
    return NETWORK if has_parts or not takes_linear_model(entry.name) else {"name": "mlr"}


def find(name: str) -> Entry:
    """Raises UnknownName."""
    return ALGORITHMS.get(name)


def _everything(entry: Entry) -> str:
    text = text_of(entry)
    parts = [entry.name, entry.title, entry.paper, entry.family, text.summary, text.citation, *text.labeled.values()]
    parts += [f"{p.name} {p.symbol} {p.description}" for p in entry.parameters]
    return " ".join([*parts, *text.remarks]).casefold()


def _family(family: str, entries: Sequence[Entry], known: dict[str, Measured | None]) -> str:
    head = f"<tr><th colspan='{len(COLUMNS)}' scope='rowgroup'>{html.escape(family)}</th></tr>"
    return f"<tbody>{head}{''.join(_row(entry, _numbers(entry, known)) for entry in entries)}</tbody>"


def _row(entry: Entry, cells: list[str]) -> str:
    numbers = "".join(f"<td class='number'>{cell}</td>" for cell in cells)
    return f"<tr>{_described(entry)}{numbers}</tr>"


@lru_cache(maxsize=500)
def _described(entry: Entry) -> str:
    """The cells that describe the method. Cached, since a page has many rows."""
    address, text = html.escape(link("handbook", method=entry.name)), text_of(entry)
    options = [parameter.name for parameter in entry.parameters]
    name = f'<a href="{address}" target="_self">{html.escape(entry.title)}</a>'
    when = text.labeled.get("When")
    about = [html.escape(text.summary), f"<b>When</b> {sentences(when, options)}" if when else ""]
    small = "".join(f"<br><small>{line}</small>" for line in about if line)
    words = [sentences(capitalized(text.labeled.get(label, MISSING).rstrip("."), options), options) for label in TEXTS]
    texts = "".join(f"<td>{cell}</td>" for cell in words)
    return f"<th scope='row'>{name}{small}</th>{texts}"


def _numbers(entry: Entry, known: dict[str, Measured | None]) -> list[str]:
    costs = known.get(entry.name)
    if costs is None:
        return [MISSING if entry.name in known else "…"] * len(NUMBERS)
    own = ["one per client"] if costs.is_personalized else []
    shared = {"none": [], "one": ["one global"], "one for each group": ["one per group"]}[costs.common]
    sent = [f"{times(v, costs.varies)}{'*' if costs.depends_on_network(v) else ''}" for v in (costs.down, costs.up)]
    return ["<br>".join([*own, *shared]), *sent, times(costs.gradients, costs.varies)]
