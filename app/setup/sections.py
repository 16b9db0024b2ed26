"""The first level of Set up, from top to bottom: each section draws its part of the draft and returns its values."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import streamlit as st

from app.access import permits
from app.access.uploads import KINDS
from app.actions.uploads import MAX_MEGABYTES, save_upload
from app.data.families import by_family
from app.data.glossary import definition
from app.forms import Form, listed, read_list, row, when_changed
from app.setup import columns
from app.setup import draft as drafts
from app.setup.advanced import FIRST, Advanced
from app.setup.sweep_fields import Sweeps
from app.setup.sweeps import OF_TRAINING
from app.wording import plain
from engine.config.options import Evaluation, Training
from engine.core.errors import DataUnavailable
from engine.core.registry import DATASETS, MODELS, PARTITIONERS, Options, Registry
from storage import StorageError

MAX_COUNT = 10  # that is spelled out
# Slider values. Any other number can be typed next to the slider.
SHARES = [round(0.05 * n, 2) for n in range(20)]
DIALS: dict[str, list[Any]] = {
    "alpha": [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0],
    "strength": [round(0.25 * n, 2) for n in range(13)],
    "R": [round(0.1 * n, 1) for n in range(31)],
    "noise": [round(0.1 * n, 1) for n in range(31)],
    "num_contexts": list(range(1, 11)),
    "num_groups": list(range(1, 11)),
    "classes_per_context": list(range(1, 11)),
    "test_fraction": SHARES,
    "val_fraction": SHARES,
    "holdout_clients": SHARES,
    "public_fraction": SHARES,
}
NATURAL, BY_CLASSES = "natural", "classes_per_client"  # partitioners: of data with clients of their own, and of others
OF_SOURCE = ("name", "path", "client")  # options of a data set that say whether it has clients


def data_section(form: Form, draft: Mapping[str, Any], advanced: Advanced) -> dict[str, Any]:
    st.header("Data", anchor=False)
    name = pick(form, DATASETS, draft["dataset"]["name"], "Data set", "dataset", on_change=_fit_partition)
    values, options = drafts.chosen(form, draft, "dataset"), DATASETS.get(name).options
    key = f"dataset.{name}"
    if name == "custom":
        values = _upload(form, values)
        chosen = form.options(options, values, "dataset", key=key, only=["path"])
        chosen |= columns.fields(form, chosen.get("path"), values)
    else:
        chosen = form.options(options, values, "dataset", key=key, only=first_level(options), scales=DIALS)
    rest = advanced.options("Data set", options, values, "dataset", options.advanced, key=key)
    return {"name": name, **chosen, **rest}


def fit_partition(form: Form, draft: Mapping[str, Any], dataset: Mapping[str, Any], has_clients: bool | None) -> None:
    """For newly chosen data, select its natural clients if it has any, else a partitioner.

    ``has_clients`` is None for data that cannot be read. A loaded configuration is not changed.
    """
    if has_clients is None:
        return
    source, name = {key: dataset.get(key) for key in OF_SOURCE}, f"{form.prefix}.partition.name"
    before = st.session_state.get(f"{form.prefix}.source", source)
    st.session_state[f"{form.prefix}.source"] = source
    chosen = st.session_state.get(name, draft["partition"]["name"])
    if source != before and has_clients != (chosen == NATURAL):
        st.session_state[name] = NATURAL if has_clients else BY_CLASSES


def heterogeneity_section(
    form: Form, draft: Mapping[str, Any], advanced: Advanced, num_classes: int | None
) -> dict[str, Any]:
    st.header("Heterogeneity", anchor=False)
    name = pick(form, PARTITIONERS, draft["partition"]["name"], "Data split", "partition")
    values, options, key = drafts.chosen(form, draft, "partition"), PARTITIONERS.get(name).options, f"partition.{name}"
    scales = DIALS | ({"classes_per_client": list(range(1, num_classes + 1))} if num_classes else {})
    chosen = form.options(options, values, "partition", key=key, only=first_level(options), scales=scales)
    rest = advanced.options("Data split", options, values, "partition", options.advanced, key=key, scales=scales)
    return {"name": name, **chosen, **rest}


def training_section(
    form: Form, draft: Mapping[str, Any], advanced: Advanced, swept: Sweeps
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Returns (model, training, evaluation, seeds with splits if there are any)."""
    st.header("Training", anchor=False)
    left, middle, right = st.columns([4, 3, 3], gap="medium")
    with left:
        name = pick(form, MODELS, draft["model"]["name"], "Model", "model")
    with middle:
        draw = swept.draw(OF_TRAINING) if f"{OF_TRAINING}rounds" in swept.given else None  # not offered: a run has all
        rounds = form.options(Training, draft["training"], "training", only=FIRST, columns=1, draw=draw)
    with right:
        about = f"Comma-separated whole numbers. Each method runs once with every seed. {definition('Seed')}"
        seeds = form.text("Seeds", listed(draft["seeds"]), "seeds", help=about)
        note_single(form, "seeds", seeds)
        about = "Seeds of the data and the split. Each split runs with every seed. If empty, each seed draws a split."
        splits = form.text("Splits", listed(draft.get("splits", "")), "splits", placeholder="same as seeds", help=about)
        note_single(form, "splits", splits)
    values, options = drafts.chosen(form, draft, "model"), MODELS.get(name).options
    model = advanced.options("Model", options, values, "model", options.model_fields, key=f"model.{name}")
    training = rounds | advanced.training(draft["training"], swept)
    evaluation = advanced.options("Evaluation", Evaluation, draft["evaluation"], "evaluation", Evaluation.model_fields)
    drawn = {"seeds": read_list(seeds)} | ({"splits": read_list(splits)} if splits.strip() else {})
    return {"name": name, **model}, training, evaluation, drawn


def note_single(form: Form, path: str, typed: str) -> None:
    """``1 seed: 3. For 3 seeds, type 0, 1, 2.`` if a single number was typed, which may have been meant as a count."""
    given = read_list(typed)
    if not isinstance(given, list) or len(given) != 1 or type(given[0]) is not int:
        return
    number = given[0]
    several = f" For {number} {path}, type {', '.join(map(str, range(number)))}." if 1 < number <= MAX_COUNT else ""
    form.note(path, [f"1 {path.removesuffix('s')}: {number}.{several}"])


def first_level(options: type[Options]) -> list[str]:
    return [name for name in options.model_fields if name not in options.advanced]


def pick(
    form: Form,
    registry: Registry,
    value: str,
    label: str,
    path: str,
    *,
    key: str = "",
    on_change: Callable[[str], object] | None = None,
    beside: Callable[[], object] | None = None,
) -> str:
    """One entry of a registry, by family if it has several.

    ``on_change`` is called with the prefix of the form when another one is chosen; ``beside`` draws next to it.
    """
    state = f"{form.prefix}.{key or path + '.name'}"
    arguments = form.start(state, value)
    if on_change:
        arguments |= when_changed(state, on_change, form.prefix)
    with row() if beside else nullcontext():
        families = by_family(registry)
        name = st.selectbox(
            label,
            [entry.name for entries in families.values() for entry in entries],
            format_func=_titled(registry, with_family=len(families) > 1),
            help=plain(registry.get(st.session_state[state]).paper),
            **arguments,
        )
        if beside:
            beside()
    form.placeholder(path)
    return name


def _fit_partition(prefix: str) -> None:
    """Generated data has its own clients; other data needs a partitioner."""
    name = st.session_state[f"{prefix}.dataset.name"]
    has_clients = "num_clients" in DATASETS.get(name).options.model_fields
    partition = st.session_state.get(f"{prefix}.partition.name")
    if has_clients:
        st.session_state[f"{prefix}.partition.name"] = NATURAL
    elif partition == NATURAL:
        st.session_state[f"{prefix}.partition.name"] = BY_CLASSES


def _upload(form: Form, values: Mapping[str, Any]) -> dict[str, Any]:
    """An uploaded file becomes the path of the data set."""
    if reason := permits.refusal("upload"):
        st.caption(reason)
        return dict(values)
    file = st.file_uploader(
        f"Your own file: {', '.join(kind.upper() for kind in KINDS)}, at most {MAX_MEGABYTES} MB",
        list(KINDS),
        key=f"{form.prefix}.upload",
        max_upload_size=MAX_MEGABYTES,
        help="NPZ: arrays x (images are [n, channels, height, width]) and y, optionally client and split. Table: a "
        "label column, numeric columns, optionally a client column.",
    )
    seen = f"{form.prefix}.uploaded"
    if file is not None and st.session_state.get(seen) != file.file_id:
        try:
            path = save_upload(file.name, file.getvalue())
        except (DataUnavailable, StorageError) as error:
            st.error(plain(str(error)))
            return dict(values)
        st.session_state[seen] = file.file_id
        st.session_state[f"{form.prefix}.dataset.custom.path.text"] = path
    return dict(values)


def _titled(registry: Registry, with_family: bool) -> Callable[[str], str]:
    """``Ditto · Regularized toward a shared model``."""

    def title(name: str) -> str:
        entry = registry.get(name)
        return f"{entry.title} · {entry.family}" if with_family else entry.title

    return title
