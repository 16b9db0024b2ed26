"""The sections of Set up, from top to bottom: each draws its part of the draft and answers what it now says."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.forms import Form, label_of, parameters_of, read_list
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
    evaluation = form.options(Evaluation, draft["evaluation"], "evaluation", columns=2)
    return model, training, evaluation


def training_fields(form: Form, values: Mapping[str, Any], path: str, fields: list[str], key: str = "") -> dict[str, Any]:
    """Local work is counted in steps or in passes over the data, never in both."""
    key = key or path
    chosen = {}
    work = [field for field in ("local_steps", "local_epochs") if field in fields]
    if work:
        unit = work[0] if len(work) == 1 else _local_work(form, values, key)
        parameter = next(p for p in parameters_of(Training) if p.name == unit)
        start = values.get(unit) or (10 if unit == "local_steps" else 1)
        as_number = parameter.__class__(**{**vars(parameter), "type": "int", "symbol": "E"})
        chosen[unit] = form.field(as_number, start, f"{path}.{unit}", key=f"{key}.{unit}")
    rest = [field for field in fields if field not in ("local_steps", "local_epochs")]
    columns = 3 if len(rest) > 2 else 2
    return chosen | form.options(
        Training, values, path, key=key, only=rest, scales={"participation": DIALS["participation"]}, columns=columns,
        stand_ins={"batch_size": 20},
    )  # fmt: skip


def sweep_section(form: Form, draft: Mapping[str, Any], entries: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], Any]:
    """Answers (algorithms with their sweeps, seeds)."""
    st.subheader("Sweep and seeds", anchor=False)
    seeds = form.text("Seeds", ", ".join(map(str, _as_list(draft["seeds"]))), "seeds",
                      help="Whole numbers with commas between them; every run is repeated with each of them.")  # fmt: skip
    swept = [
        _sweep(form, place, uid, entry) for place, (uid, entry) in enumerate(zip(drafts.ids(), entries, strict=True))
    ]
    return swept, read_list(seeds)


def machine_section(form: Form, draft: Mapping[str, Any]) -> dict[str, Any]:
    """Where and how it is computed; only what differs from the default is written down."""
    with st.expander("Machine", key=f"{form.prefix}.machine"):
        chosen = form.options(Machine, draft, "", key="machine", stand_ins={"threads": 1})
    defaults = Machine().model_dump()
    return {name: value for name, value in chosen.items() if value != defaults[name]}


def _algorithm(form: Form, place: int, uid: str, entry: Mapping[str, Any], training: Mapping[str, Any]) -> dict[str, Any]:
    """One method: its name, its hyper-parameters, where it trains differently from the others."""
    path = f"algorithms.{place}"
    with st.container(border=True, key=f"{form.prefix}.{uid}.card"):
        left, middle, right = st.columns([5, 4, 2], vertical_alignment="bottom", gap="medium")
        with left:
            name = _pick(form, ALGORITHMS, entry["name"], f"Method {place + 1}", path, key=f"{uid}.name")
        values = entry if entry["name"] == name else {"sweep": {}}
        with middle:
            label = form.text("Label", str(values.get("label", "")), f"{path}.label", key=f"{uid}.{name}.label",
                              placeholder=name)  # fmt: skip
        right.button("Remove", key=f"{form.prefix}.{uid}.remove", type="tertiary", on_click=drafts.remove_algorithm,
                     args=(place,), help=f"Leave {name} out")  # fmt: skip
        options = ALGORITHMS.get(name).options
        chosen = form.options(options, values, path, key=f"{uid}.{name}", stand_ins=_stand_ins(options, training), columns=2)
        override = _override(form, path, f"{uid}.{name}", values, training)
    extra = {"label": label} if label.strip() else {}
    extra |= {"training": override} if override else {}
    return {"name": name, **extra, **chosen, **({"sweep": values["sweep"]} if values.get("sweep") else {})}


def _override(
    form: Form, path: str, key: str, values: Mapping[str, Any], training: Mapping[str, Any]
) -> dict[str, Any]:
    own = {k: v for k, v in dict(values.get("training") or {}).items() if k in Training.model_fields}
    state = f"{form.prefix}.{key}.differs"
    if state not in st.session_state:
        st.session_state[state] = list(own)
    fields = st.multiselect("Trains differently in", list(Training.model_fields), key=state,
                            placeholder="nothing: as set under Training", format_func=_words)  # fmt: skip
    if {"local_steps", "local_epochs"} <= set(fields):
        fields.remove("local_epochs")
    return training_fields(form, {**training, **own}, f"{path}.training", fields, key=f"{key}.training") if fields else {}


def _sweep(form: Form, place: int, uid: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Vary parameters of one method: a run for each combination of their values."""
    path, sweep = f"algorithms.{place}", dict(entry.get("sweep") or {})
    known = [p.name for p in ALGORITHMS.get(entry["name"]).parameters]
    known += [f"training.{field}" for field in Training.model_fields]
    names = {p.name: label_of(p) for p in ALGORITHMS.get(entry["name"]).parameters}
    key = f"{form.prefix}.{uid}.{entry['name']}.vary"
    if key not in st.session_state:
        st.session_state[key] = list(sweep)
    left, right = st.columns(2, gap="medium")
    with left:
        varied = st.multiselect(
            f"Vary in {entry.get('label', entry['name'])}", [*known, *(k for k in sweep if k not in known)], key=key,
            placeholder="nothing", format_func=lambda n: names.get(n, _words(n)),
        )  # fmt: skip
        form.spot(path)
    values = {}
    with right:
        for name in varied:
            start = ", ".join(map(str, _as_list(sweep.get(name, _first_values(entry, name)))))
            typed = form.text(f"Values of {name}", start, f"{path}.sweep.{name}", key=f"{uid}.{entry['name']}.sweep.{name}")
            values[name] = read_list(typed)
    rest = {k: v for k, v in entry.items() if k != "sweep"}
    return {**rest, "sweep": values} if values else rest


def _pick(form: Form, registry: Registry, value: str, label: str, path: str, *, key: str = "", on_change: Any = None) -> str:
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


def _local_work(form: Form, values: Mapping[str, Any], key: str) -> str:
    state = f"{form.prefix}.{key}.work"
    if state not in st.session_state:
        st.session_state[state] = "local_epochs" if values.get("local_epochs") else "local_steps"
    return st.segmented_control(
        "Local work of a round", ["local_steps", "local_epochs"], key=state, required=True,
        format_func={"local_steps": "steps", "local_epochs": "passes over the data"}.get,
    )  # fmt: skip


def _stand_ins(options: Any, training: Mapping[str, Any]) -> dict[str, Any]:
    """The training value that each ``"training"`` stands for."""
    named = {n: f.json_schema_extra for n, f in options.model_fields.items()}
    return {n: training.get(str(extra["training"])) for n, extra in named.items()
            if isinstance(extra, dict) and "training" in extra}  # fmt: skip


def _first_values(entry: Mapping[str, Any], name: str) -> list[Any]:
    """A start for a sweep: half, same, double."""
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value:
        return [] if value is None else [value]
    return [max(value // 2, 1), value, value * 2] if isinstance(value, int) and value > 1 else [value / 2, value, value * 2] if isinstance(value, float) else [1, 2, 4]


def _titled(registry: Registry) -> Any:
    return lambda name: registry.get(name).title


def _words(name: str) -> str:
    return name.replace("training.", "").replace("_", " ")


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
