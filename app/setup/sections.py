"""The sections of Set up, from top to bottom: each draws its part of the draft and answers what it now says."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from app.forms import Form, parameters_of, plain, read_list
from app.setup import draft as drafts
from app.setup.uploads import KINDS, MAX_MEGABYTES, save_upload
from engine.config import Evaluation, Machine, Training
from engine.errors import DataUnavailable
from engine.partitioners import PartitionOptions
from engine.registry import ALGORITHMS, DATASETS, MODELS, PARTITIONERS, Registry

# Dials: what a slider offers where the schema leaves a side open. Any other value may come by link.
SHARES = [round(0.05 * n, 2) for n in range(20)]
DIALS: dict[str, list[Any]] = {
    "alpha": [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0],
    "strength": [round(0.25 * n, 2) for n in range(13)],
    "R": [round(0.1 * n, 1) for n in range(31)],
    "noise": [round(0.1 * n, 1) for n in range(31)],
    "num_contexts": list(range(1, 11)), "classes_per_context": list(range(1, 11)),
    "test_fraction": SHARES, "val_fraction": SHARES, "participation": [*SHARES[1:], 1.0],
}  # fmt: skip
SHARED = tuple(PartitionOptions.model_fields)  # what a change of the partitioner keeps


def data_section(form: Form, draft: Mapping[str, Any]) -> dict[str, Any]:
    st.subheader("Data", anchor=False)
    name = _pick(form, DATASETS, draft["dataset"]["name"], "Data set", "dataset", on_change=_fit_partition)
    values = draft["dataset"] if draft["dataset"]["name"] == name else {}
    if name == "custom":
        values = _upload(form, values)
    entry = DATASETS.get(name)
    chosen = form.options(entry.options, values, "dataset", key=f"dataset.{name}", scales=DIALS)
    return {"name": name, **chosen}


def heterogeneity_section(form: Form, draft: Mapping[str, Any], num_classes: int | None) -> dict[str, Any]:
    st.subheader("Heterogeneity", anchor=False)
    name = _pick(form, PARTITIONERS, draft["partition"]["name"], "How the data lies among the clients", "partition")
    old = draft["partition"]
    values = old if old["name"] == name else {k: v for k, v in old.items() if k in SHARED}
    scales = DIALS | ({"classes_per_client": list(range(1, num_classes + 1))} if num_classes else {})
    options = PARTITIONERS.get(name).options
    own = [field for field in options.model_fields if field not in SHARED or field == "num_clients"]
    with st.container():
        chosen = form.options(options, values, "partition", key=f"partition.{name}", only=own, scales=scales)
    rest = [field for field in options.model_fields if field not in own]
    chosen |= form.options(options, values, "partition", key=f"partition.{name}", only=rest, scales=scales, columns=3)
    return {"name": name, **chosen}


def algorithms_section(form: Form, draft: Mapping[str, Any], training: Mapping[str, Any]) -> list[dict[str, Any]]:
    st.subheader("Algorithms", anchor=False)
    form.spot("algorithms")
    places = zip(drafts.ids(), draft["algorithms"], strict=True)
    entries = [_algorithm(form, place, uid, entry, training) for place, (uid, entry) in enumerate(places)]
    st.selectbox(
        "Add a method", list(ALGORITHMS.names()), index=None, key=f"{form.prefix}.add", placeholder="Add a method",
        format_func=_titled(ALGORITHMS), label_visibility="collapsed", on_change=_add, args=(f"{form.prefix}.add",),
    )  # fmt: skip
    return entries


def training_section(form: Form, draft: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Answers (model, training, evaluation)."""
    st.subheader("Training", anchor=False)
    name = _pick(form, MODELS, draft["model"]["name"], "Model", "model")
    values = draft["model"] if draft["model"]["name"] == name else {}
    model = {"name": name, **form.options(MODELS.get(name).options, values, "model", key=f"model.{name}")}
    training = training_fields(form, draft["training"], "training", list(Training.model_fields))
    evaluation = form.options(Evaluation, draft["evaluation"], "evaluation", columns=3)
    return model, training, evaluation


def training_fields(
    form: Form, values: Mapping[str, Any], path: str, fields: list[str], key: str = ""
) -> dict[str, Any]:
    """Local work is counted in steps or in passes over the data, never in both."""
    key = key or path
    chosen = _local_work(form, values, path, key, [f for f in ("local_steps", "local_epochs") if f in fields])
    rest = [field for field in fields if field not in ("local_steps", "local_epochs")]
    return chosen | form.options(
        Training, values, path, key=key, only=rest, scales=DIALS, columns=3 if len(rest) > 2 else 2
    )


def sweep_section(
    form: Form, draft: Mapping[str, Any], entries: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], Any]:
    """Answers (algorithms with their sweeps, seeds). A run for each combination of a method's values and each seed."""
    st.subheader("Sweep and seeds", anchor=False)
    ids = drafts.ids()
    offered = {
        f"{uid}.{name}": (uid, name) for uid, entry in zip(ids, entries, strict=True) for name in _variable(entry)
    }
    titles = {
        uid: entry.get("label", ALGORITHMS.get(entry["name"]).title) for uid, entry in zip(ids, entries, strict=True)
    }
    state = f"{form.prefix}.vary"
    if state not in st.session_state:
        st.session_state[state] = [
            f"{uid}.{name}" for uid, e in zip(ids, entries, strict=True) for name in e.get("sweep", {})
        ]
    st.session_state[state] = [choice for choice in st.session_state[state] if choice in offered]
    left, right = st.columns([3, 2], gap="medium")
    with left:
        varied = st.multiselect(
            "Vary", list(offered), key=state, placeholder="nothing: one setting of each method",
            format_func=lambda choice: f"{titles[offered[choice][0]]}: {_words(offered[choice][1])}",
        )  # fmt: skip
    with right:
        seeds = form.text("Seeds", _listed(draft["seeds"]), "seeds", help="Whole numbers with commas between them; every "
                          "run is repeated with each of them.")  # fmt: skip
    swept = []
    for place, (uid, entry) in enumerate(zip(ids, entries, strict=True)):
        names = [offered[choice][1] for choice in varied if offered[choice][0] == uid]
        swept.append(_sweep(form, place, uid, entry, names, titles[uid]))
    return swept, read_list(seeds)


def machine_section(form: Form, draft: Mapping[str, Any]) -> dict[str, Any]:
    """Where and how it is computed; only what differs from the default is written down."""
    with st.expander("Machine", key=f"{form.prefix}.machine"):
        chosen = form.options(Machine, draft, "", key="machine", columns=4)
    defaults = Machine().model_dump()
    return {name: value for name, value in chosen.items() if value != defaults[name]}


def _algorithm(
    form: Form, place: int, uid: str, entry: Mapping[str, Any], training: Mapping[str, Any]
) -> dict[str, Any]:
    """One method: its name, its hyper-parameters; behind More its label and where it trains differently."""
    path = f"algorithms.{place}"
    with st.container(key=f"{form.prefix}.{uid}.card", gap="small"):
        left, *buttons = st.columns([6, 1.4, 1.6], vertical_alignment="bottom", gap="small")
        with left:
            name = _pick(form, ALGORITHMS, entry["name"], f"Method {place + 1}", path, key=f"{uid}.name")
        values = entry if entry["name"] == name else {}
        with buttons[0], st.popover("More", type="tertiary", key=f"{form.prefix}.{uid}.more"):
            extra = _more(form, path, f"{uid}.{name}", name, values, training)
        buttons[1].button("Remove", key=f"{form.prefix}.{uid}.remove", type="tertiary", args=(place,),
                          on_click=drafts.remove_algorithm)  # fmt: skip
        options = ALGORITHMS.get(name).options
        stand_ins = _stand_ins(options, training)
        chosen = form.options(options, values, path, key=f"{uid}.{name}", stand_ins=stand_ins, columns=3)
        if extra.get("training"):
            st.caption(plain("Trains with " + ", ".join(f"{_words(k)} {v}" for k, v in extra["training"].items())))
    return {"name": name, **extra, **chosen, **({"sweep": values["sweep"]} if values.get("sweep") else {})}


def _more(
    form: Form, path: str, key: str, name: str, values: Mapping[str, Any], training: Mapping[str, Any]
) -> dict[str, Any]:
    """Label and training of one method, where they are not the common ones."""
    label = form.text("Label", str(values.get("label", "")), f"{path}.label", key=f"{key}.label", placeholder=name)
    own = {k: v for k, v in dict(values.get("training") or {}).items() if k in Training.model_fields}
    state = f"{form.prefix}.{key}.differs"
    if state not in st.session_state:
        st.session_state[state] = list(own)
    fields = st.multiselect("Trains differently in", list(Training.model_fields), key=state,
                            placeholder="nothing: as set under Training", format_func=_words)  # fmt: skip
    if {"local_steps", "local_epochs"} <= set(fields):
        fields.remove("local_epochs")
    override = training_fields(form, {**training, **own}, f"{path}.training", fields, key=f"{key}.training")
    return ({"label": label} if label.strip() else {}) | ({"training": override} if override else {})


def _sweep(form: Form, place: int, uid: str, entry: dict[str, Any], names: list[str], title: str) -> dict[str, Any]:
    """The values of what one method varies."""
    path, given = f"algorithms.{place}", dict(entry.get("sweep") or {})
    values = {}
    for name in names:
        start = _listed(given.get(name, _first_values(entry, name)))
        typed = form.text(f"{title}: values of {_words(name)}", start, f"{path}.sweep.{name}", key=f"{uid}.sweep.{name}",
                          help="Values with commas between them.")  # fmt: skip
        values[name] = read_list(typed)
    rest = {k: v for k, v in entry.items() if k != "sweep"}
    return {**rest, "sweep": values} if values else rest


def _variable(entry: Mapping[str, Any]) -> list[str]:
    """What a sweep may vary, and what the draft already does."""
    own = [p.name for p in ALGORITHMS.get(entry["name"]).parameters]
    known = [*own, *(f"training.{field}" for field in Training.model_fields)]
    return [*known, *(name for name in entry.get("sweep") or {} if name not in known)]


def _pick(
    form: Form, registry: Registry, value: str, label: str, path: str, *, key: str = "", on_change: Any = None
) -> str:
    state = f"{form.prefix}.{key or path + '.name'}"
    if state not in st.session_state:
        st.session_state[state] = value
    arguments = {"on_change": on_change, "args": (form.prefix,)} if on_change else {}
    name = st.selectbox(label, list(registry.names()), key=state, format_func=_titled(registry),
                        help=registry.get(st.session_state[state]).paper, **arguments)  # fmt: skip
    form.spot(path)
    return name


def _fit_partition(prefix: str) -> None:
    """Generated data come with their clients; other data need a partitioner."""
    has_clients = "num_clients" in DATASETS.get(st.session_state[f"{prefix}.dataset.name"]).options.model_fields
    partition = st.session_state.get(f"{prefix}.partition.name")
    if has_clients:
        st.session_state[f"{prefix}.partition.name"] = "natural"
    elif partition == "natural":
        st.session_state[f"{prefix}.partition.name"] = "classes_per_client"


def _upload(form: Form, values: Mapping[str, Any]) -> dict[str, Any]:
    """A file from the reader's machine becomes the path of the data set."""
    file = st.file_uploader(
        f"A file of your own: {', '.join(kind.upper() for kind in KINDS)}, at most {MAX_MEGABYTES} MB", list(KINDS),
        key=f"{form.prefix}.upload", max_upload_size=MAX_MEGABYTES,
        help="NPZ: arrays x, y and perhaps client, split. Tables: a label column, numeric columns, perhaps a client column.",
    )  # fmt: skip
    seen = f"{form.prefix}.uploaded"
    if file is not None and st.session_state.get(seen) != file.file_id:
        try:
            path = save_upload(file.name, file.getvalue())
        except DataUnavailable as error:
            st.error(str(error))
            return dict(values)
        st.session_state[seen] = file.file_id
        st.session_state[f"{form.prefix}.dataset.custom.path.text"] = path
    return dict(values)


def _add(key: str) -> None:
    if st.session_state[key]:
        drafts.add_algorithm(st.session_state[key])
        st.session_state[key] = None


def _local_work(form: Form, values: Mapping[str, Any], path: str, key: str, units: list[str]) -> dict[str, Any]:
    if not units:
        return {}
    left, right = st.columns(2, gap="medium")
    state = f"{form.prefix}.{key}.work"
    if state not in st.session_state:
        st.session_state[state] = "local_epochs" if values.get("local_epochs") else "local_steps"
    unit = units[0]
    if len(units) > 1:
        unit = left.segmented_control("Local work of a round", units, key=state, required=True,
                                      format_func={"local_steps": "steps", "local_epochs": "passes"}.get)  # fmt: skip
    parameter = replace(next(p for p in parameters_of(Training) if p.name == unit), type="int")
    with right if len(units) > 1 else left:
        start = values.get(unit) or (10 if unit == "local_steps" else 1)
        return {unit: form.field(parameter, start, f"{path}.{unit}", key=f"{key}.{unit}")}


def _stand_ins(options: Any, training: Mapping[str, Any]) -> dict[str, Any]:
    """The training value that each ``"training"`` stands for."""
    named = {n: f.json_schema_extra for n, f in options.model_fields.items()}
    return {n: training.get(str(extra["training"])) for n, extra in named.items()
            if isinstance(extra, dict) and "training" in extra}  # fmt: skip


def _first_values(entry: Mapping[str, Any], name: str) -> list[Any]:
    """A start for a sweep: half, same, double."""
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return [] if value is None else [value]
    half = value / 2 if isinstance(value, float) else value // 2
    return sorted({half, value, value * 2} - {0})


def _titled(registry: Registry) -> Any:
    return lambda name: registry.get(name).title


def _words(name: str) -> str:
    return name.replace("training.", "").replace("_", " ")


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
