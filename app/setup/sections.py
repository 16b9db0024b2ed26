"""The sections of Set up, from top to bottom: each draws its part of the draft and returns its values."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from app.forms import Form, parameters_of
from app.setup.uploads import KINDS, MAX_MEGABYTES, save_upload
from app.wording import plain
from engine.config.schema import Evaluation, Machine, Training
from engine.core.errors import DataUnavailable
from engine.core.registry import DATASETS, MODELS, PARTITIONERS, Registry
from engine.partitioners import PartitionOptions

# Slider values where the schema leaves a bound open. A link may have other values.
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
    "participation": [*SHARES[1:], 1.0],
}
WORK = {"local_steps": "steps", "local_epochs": "epochs"}
OF_STEPS = ("lr_decay", "lr_decay_rounds")  # unused with other schedules
RARER = ("lr_schedule", "clip_norm", "augmentation", "dtype")
NATURAL, DEALT = "natural", "classes_per_client"  # partitioners: of data with clients of their own, and of others
OF_SOURCE = ("name", "path", "client")  # options of a data set that say whether it has clients
SHARED = tuple(PartitionOptions.model_fields)  # what a change of the partitioner keeps


def data_section(form: Form, draft: Mapping[str, Any]) -> dict[str, Any]:
    st.header("Data", anchor=False)
    name = pick(form, DATASETS, draft["dataset"]["name"], "Data set", "dataset", on_change=_fit_partition)
    values = draft["dataset"] if draft["dataset"]["name"] == name else {}
    if name == "custom":
        values = _upload(form, values)
    entry = DATASETS.get(name)
    chosen = form.options(entry.options, values, "dataset", key=f"dataset.{name}", scales=DIALS)
    return {"name": name, **chosen}


def fit_partition(form: Form, draft: Mapping[str, Any], dataset: Mapping[str, Any], has_clients: bool | None) -> None:
    """When the data changes, use its own clients if it has any, else a partitioner.

    ``has_clients`` is None for data that cannot be read. A loaded configuration is not changed.
    """
    if has_clients is None:
        return
    source, name = {key: dataset.get(key) for key in OF_SOURCE}, f"{form.prefix}.partition.name"
    before = st.session_state.get(f"{form.prefix}.source", source)
    st.session_state[f"{form.prefix}.source"] = source
    chosen = st.session_state.get(name, draft["partition"]["name"])
    if source != before and has_clients != (chosen == NATURAL):
        st.session_state[name] = NATURAL if has_clients else DEALT


def heterogeneity_section(form: Form, draft: Mapping[str, Any], num_classes: int | None) -> dict[str, Any]:
    st.header("Heterogeneity", anchor=False)
    name = pick(form, PARTITIONERS, draft["partition"]["name"], "Data split", "partition")
    old = draft["partition"]
    values = old if old["name"] == name else {k: v for k, v in old.items() if k in SHARED}
    scales = DIALS | ({"classes_per_client": list(range(1, num_classes + 1))} if num_classes else {})
    options = PARTITIONERS.get(name).options
    own = [field for field in options.model_fields if field not in SHARED or field == "num_clients"]
    with st.container():
        chosen = form.options(options, values, "partition", key=f"partition.{name}", only=own, scales=scales)
    rest = [field for field in options.model_fields if field not in own]
    chosen |= form.options(options, values, "partition", key=f"partition.{name}", only=rest, scales=scales, columns=4)
    return {"name": name, **chosen}


def training_section(form: Form, draft: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Returns (model, training, evaluation)."""
    st.header("Training", anchor=False)
    name = pick(form, MODELS, draft["model"]["name"], "Model", "model")
    values = draft["model"] if draft["model"]["name"] == name else {}
    model = {"name": name, **form.options(MODELS.get(name).options, values, "model", key=f"model.{name}")}
    usual = [field for field in Training.model_fields if field not in (*RARER, *OF_STEPS)]
    training = training_fields(form, draft["training"], "training", usual)
    evaluation = form.options(Evaluation, draft["evaluation"], "evaluation", columns=3)
    return model, training | _rarer_training(form, draft["training"]), evaluation


def _rarer_training(form: Form, values: Mapping[str, Any]) -> dict[str, Any]:
    """Rarely used options, folded; open if one is set."""
    defaults = {name: field.default for name, field in Training.model_fields.items()}
    is_set = any(values.get(name, defaults[name]) != defaults[name] for name in RARER)
    with st.expander("Schedule, clipping, augmentation, precision", expanded=is_set, key=f"{form.prefix}.rarer"):
        chosen = form.options(Training, values, "training", only=RARER)
        if chosen["lr_schedule"] == "step":
            chosen |= form.options(Training, values, "training", only=OF_STEPS)
    return chosen


def training_fields(
    form: Form, values: Mapping[str, Any], path: str, fields: list[str], key: str = ""
) -> dict[str, Any]:
    """Local training is counted in steps or in epochs, never in both."""
    key = key or path
    chosen = _local_work(form, values, path, key, [f for f in ("local_steps", "local_epochs") if f in fields])
    rest = [field for field in fields if field not in ("local_steps", "local_epochs")]
    return chosen | form.options(
        Training, values, path, key=key, only=rest, scales=DIALS, columns=3 if len(rest) > 2 else 2
    )


def machine_section(form: Form, draft: Mapping[str, Any]) -> dict[str, Any]:
    """Where and how runs are computed; only values that differ from the defaults are kept."""
    with st.expander("Machine", key=f"{form.prefix}.machine"):
        chosen = form.options(Machine, draft, "", key="machine", columns=4)
    defaults = Machine().model_dump()
    return {name: value for name, value in chosen.items() if value != defaults[name]}


def pick(
    form: Form, registry: Registry, value: str, label: str, path: str, *, key: str = "", on_change: Any = None
) -> str:
    state = f"{form.prefix}.{key or path + '.name'}"
    arguments = form.start(state, value)
    if on_change:
        arguments |= {"on_change": on_change, "args": (form.prefix,)}
    name = st.selectbox(
        label,
        list(registry.names()),
        format_func=titled(registry),
        help=plain(registry.get(st.session_state[state]).paper),
        **arguments,
    )
    form.spot(path)
    return name


def _fit_partition(prefix: str) -> None:
    """Generated data has its own clients; other data needs a partitioner."""
    has_clients = "num_clients" in DATASETS.get(st.session_state[f"{prefix}.dataset.name"]).options.model_fields
    partition = st.session_state.get(f"{prefix}.partition.name")
    if has_clients:
        st.session_state[f"{prefix}.partition.name"] = NATURAL
    elif partition == NATURAL:
        st.session_state[f"{prefix}.partition.name"] = DEALT


def _upload(form: Form, values: Mapping[str, Any]) -> dict[str, Any]:
    """An uploaded file becomes the path of the data set."""
    file = st.file_uploader(
        f"Your own file: {', '.join(kind.upper() for kind in KINDS)}, at most {MAX_MEGABYTES} MB",
        list(KINDS),
        key=f"{form.prefix}.upload",
        max_upload_size=MAX_MEGABYTES,
        help="NPZ: arrays x and y, optionally client and split. Table: a label column, numeric columns, optionally a "
        "client column.",
    )
    seen = f"{form.prefix}.uploaded"
    if file is not None and st.session_state.get(seen) != file.file_id:
        try:
            path = save_upload(file.name, file.getvalue())
        except DataUnavailable as error:
            st.error(plain(str(error)))
            return dict(values)
        st.session_state[seen] = file.file_id
        st.session_state[f"{form.prefix}.dataset.custom.path.text"] = path
    return dict(values)


def _local_work(form: Form, values: Mapping[str, Any], path: str, key: str, units: list[str]) -> dict[str, Any]:
    if not units:
        return {}
    left, right = st.columns(2, gap="medium")
    unit = units[0]
    if len(units) > 1:
        now = "local_epochs" if values.get("local_epochs") else "local_steps"
        started = form.start(f"{form.prefix}.{key}.work", now, "default")
        label = "Local training per round"
        unit = left.segmented_control(label, units, required=True, format_func=WORK.__getitem__, **started)
    parameter = replace(next(p for p in parameters_of(Training) if p.name == unit), type="int")
    with right if len(units) > 1 else left:
        start = values.get(unit) or (10 if unit == "local_steps" else 1)
        return {unit: form.field(parameter, start, f"{path}.{unit}", key=f"{key}.{unit}")}


def titled(registry: Registry) -> Any:
    return lambda name: registry.get(name).title


def words(name: str) -> str:
    return name.replace("training.", "").replace("_", " ")


def listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
