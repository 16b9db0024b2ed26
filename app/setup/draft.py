"""The draft: the configuration being edited, in the session and in the address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from app.data.experiment_names import automatic_name, unnamed
from app.forms import Form, listed
from app.setup import sweeps
from app.setup.dial_options import options_of
from app.state import url_state
from app.state.links import pack_config, unpack_config
from app.wording import plain
from engine.config.options import Evaluation, Machine, Training
from engine.config.schema import DIAL_KEYS, DIALS, OPTION_DIALS, parse_experiment
from engine.config.tune import Tune
from engine.core.errors import InvalidConfig, cut, shown
from engine.core.registry import ALGORITHMS, DATASETS, MODELS, PARTITIONERS, Options, Registry
from engine.partitioners import PartitionOptions

DRAFT, COUNTER = "setup.draft", "setup.counter"
DEFAULT: dict[str, Any] = {
    "dataset": {"name": "digits"},
    "partition": {
        "name": "classes_per_client",
        "num_clients": 20,
        "classes_per_client": 3,
        "assignment": "cyclic",
        "test_fraction": 0.25,
    },
    "model": {"name": "mlr"},
    "training": {"rounds": 50, "participation": 1.0, "local_steps": 10, "batch_size": 20, "lr": 0.05},
    "algorithms": [{"name": "fedavg"}, {"name": "local_train"}, {"name": "ditto"}],
    "seeds": [0, 1],
    "evaluation": {"every": 1},
}
OPTIONAL = ("splits", "tune")  # keys of an experiment that a draft only has if they are given
STUDY_SPLITS, STUDY_VAL_FRACTION = (0, 1, 2), 0.2  # what a study starts with
ADDED = "added_for_study"  # in the session: which of these it was given
ADVANCED = "advanced"  # the collapsed section
MAX_DRAWN, MAX_WARNINGS = 60, 5  # methods, and swept or tuned options, that one page can hold; warnings at once
SECTIONS: dict[str, tuple[Registry, str]] = {
    "dataset": (DATASETS, "digits"),
    "partition": (PARTITIONERS, "classes_per_client"),
    "model": (MODELS, "mlr"),
}


@dataclass
class _Kept:
    """The draft in the session, with what belongs to it: Streamlit may stop a run at any access to the session.

    ``link`` is the draft as the address gives it. ``untouched`` is the draft with which the page opened: None until the
    page is drawn, empty if the draft came from a link.
    """

    draft: dict[str, Any]
    ids: list[str]  # of the methods
    link: str = ""
    untouched: str | None = None


def _kept() -> _Kept:
    kept: _Kept = st.session_state[DRAFT]
    return kept


def current(form: Form) -> dict[str, Any]:
    """The draft, loaded from the address if the page was opened with a new one.

    After that, the address is ignored: if a press stopped the last run, the address may be older than the draft.
    """
    kept: _Kept | None = st.session_state.get(DRAFT)
    if kept and kept.untouched is None:  # the first run was stopped, so this one may already have the reader's changes
        kept.untouched = "" if kept.link else pack_config(DEFAULT)
    if url_state.has_arrived():
        packed = url_state.get("config")
        if not packed and url_state.is_history() and kept:
            packed = kept.untouched
        if packed and packed != (kept.link if kept else ""):
            try:
                load(form, unpack_config(packed))
            except InvalidConfig as error:
                st.warning(plain(str(error)))
            if DRAFT in st.session_state:
                _kept().link = packed
        url_state.take_arrival()  # last: if this run is stopped before that, the next one loads again
    if DRAFT not in st.session_state:
        load(form, DEFAULT)
    return _kept().draft


def load(form: Form, config: Mapping[str, Any]) -> None:
    """Fill the whole form with a configuration; values that no field can show are dropped with a warning.

    An automatic name keeps following the changes.
    """
    form.forget()
    draft, dropped = drawable(config)
    if draft.get("name") == automatic_name(draft):
        draft = unnamed(draft)
    before: _Kept | None = st.session_state.get(DRAFT)
    loaded = _Kept(draft, [_next_id() for _ in draft["algorithms"]])
    if before:
        loaded.link, loaded.untouched = before.link, before.untouched
    st.session_state[DRAFT] = loaded
    _open_where_wrong(form, draft)
    for line in dropped:
        st.warning(plain(line))


def chosen(form: Form, draft: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The draft's data, split or model. If another was just chosen: its name, and the options shared by all kinds."""
    old = draft[section]
    name = st.session_state.get(f"{form.prefix}.{section}.name", old["name"])
    shared = PartitionOptions.model_fields if section == "partition" else ()
    return old if old["name"] == name else {k: v for k, v in old.items() if k in shared} | {"name": name}


def keep(raw: dict[str, Any]) -> None:
    """Store the draft, and put it into the address unless it is unchanged."""
    packed, kept = pack_config(raw), _kept()
    if kept.untouched is None:
        kept.untouched = "" if url_state.get("config") else packed
    kept.draft, kept.link = raw, packed
    url_state.choose(config=None if packed == kept.untouched else packed)


def add_algorithm(name: str) -> None:
    """Add a method, with the sweeps that all others share."""
    kept, new = _kept(), _next_id()
    shared = sweeps.shared(kept.draft)
    kept.draft["algorithms"].append({"name": name} | ({"sweep": shared} if shared else {}))
    kept.ids.append(new)


def remove_algorithm(uid: str) -> None:
    """Remove a method, unless a double click has done so."""
    kept = _kept()
    if uid in kept.ids:
        place = kept.ids.index(uid)
        del kept.draft["algorithms"][place]
        del kept.ids[place]


def begin_sweep(places: Sequence[int], name: str, values: list[Any]) -> None:
    """Sweeps an option of these methods."""
    for place in places:
        entry = _kept().draft["algorithms"][place]
        entry["sweep"] = {**(entry.get("sweep") or {}), name: list(values)}


def end_sweep(places: Sequence[int], name: str) -> None:
    """Returns these methods to the one value that the option had before."""
    for place in places:
        entry = _kept().draft["algorithms"][place]
        swept = entry.get("sweep") or {}  # none after a double click
        entry["sweep"] = {option: values for option, values in swept.items() if option != name}


def begin_study(prefix: str) -> None:
    """Make a study of the draft: options at their defaults are tuned. Missing splits and validation data are added.

    ``prefix`` is the form's.
    """
    draft = _kept().draft
    draft["tune"] = {}
    for entry in draft["algorithms"]:
        for name, default in _tunable(entry, draft).items():
            if entry.get(name) == default:
                entry.pop(name, None)
    added = st.session_state[f"{prefix}.{ADDED}"] = dict[str, Any]()
    if not draft.get("splits"):
        added["splits"] = draft["splits"] = list(STUDY_SPLITS)
        st.session_state[f"{prefix}.splits"] = listed(STUDY_SPLITS)
    if not draft["partition"].get("val_fraction"):
        added["val_fraction"] = STUDY_VAL_FRACTION
        _set_val_fraction(prefix, draft, STUDY_VAL_FRACTION)


def end_study(prefix: str) -> None:
    """Make a plain experiment of the draft; what the study added and nobody changed is removed."""
    draft = _kept().draft
    draft.pop("tune", None)
    for entry in draft["algorithms"]:
        entry.pop("tune", None)
    added = st.session_state.pop(f"{prefix}.{ADDED}", {})
    if "splits" in added and draft.get("splits") == added["splits"]:
        del draft["splits"]
        st.session_state[f"{prefix}.splits"] = ""
    if draft["partition"].get("val_fraction") == added.get("val_fraction", 0.0):
        _set_val_fraction(prefix, draft, 0.0)


def _set_val_fraction(prefix: str, draft: dict[str, Any], value: float) -> None:
    """Set it in the draft, and in its field if that is drawn."""
    draft["partition"] = {**draft["partition"], "val_fraction": value}
    field = f"{prefix}.partition.{draft['partition']['name']}.val_fraction"
    if field in st.session_state:
        st.session_state[field] = value


def last_id() -> int:
    """The number of the id given last, 0 before the first."""
    last: int = st.session_state.get(COUNTER, 0)
    return last


def ids() -> list[str]:
    """A stable id for each algorithm of the draft, so that it keeps its widgets."""
    return _kept().ids


def drawable(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A configuration in the shape that the sections draw, and messages on what was dropped."""
    known = {*DEFAULT, *OPTIONAL, "name", *DIAL_KEYS, *Machine.model_fields}
    dropped = [f"{cut(key, 40)} is unknown and was ignored" for key in config if key not in known]
    draft: dict[str, Any] = {k: config[k] for k in ("name", *Machine.model_fields) if k in config}
    draft |= _dials(config, dropped)
    for section, (registry, fallback) in SECTIONS.items():
        draft[section] = _named(config.get(section, fallback))
        if draft[section]["name"] not in registry:
            dropped.append(f"no {registry.kind} named {shown(draft[section]['name'])}; using {fallback}")
            draft[section] = {"name": fallback}
        options = registry.get(draft[section]["name"]).options
        draft[section] = _known(draft[section], options, section, dropped, "name")
    entries = config.get("algorithms", [])
    if not isinstance(entries, list):
        dropped.append(_no("list of methods", "algorithms", entries))
        entries = []
    if len(entries) > MAX_DRAWN:
        dropped.append(f"algorithms: only the first {MAX_DRAWN} of {len(entries):,} methods were loaded")
    draft["algorithms"] = [_method(entry, place, dropped) for place, entry in enumerate(entries[:MAX_DRAWN])]
    unknown = [entry["name"] for entry in draft["algorithms"] if entry["name"] not in ALGORITHMS]
    dropped += [f"no algorithm named {shown(name)}; it was ignored" for name in unknown]
    draft["algorithms"] = [entry for entry in draft["algorithms"] if entry["name"] in ALGORITHMS]
    for section, options in (("training", Training), ("evaluation", Evaluation)):
        draft[section] = _known(_mapping(config.get(section, {}), section, dropped), options, section, dropped)
    draft["seeds"] = config.get("seeds", [0])
    if config.get("splits") is not None:
        draft["splits"] = config["splits"]
    if config.get("tune") is not None:
        draft["tune"] = _known(_mapping(config["tune"], "tune", dropped), Tune, "tune", dropped)
    if len(dropped) > MAX_WARNINGS:
        dropped[MAX_WARNINGS:] = [f"and {len(dropped) - MAX_WARNINGS:,} more problems"]
    return draft, dropped


def problems_of(raw: Mapping[str, Any]) -> list[str]:
    """Every problem of a configuration, in the engine's words."""
    try:
        parse_experiment(raw)
    except InvalidConfig as error:
        return list(error.problems)
    return []


def _open_where_wrong(form: Form, draft: Mapping[str, Any]) -> None:
    """Open the sections with a problem in them, so that it is shown at its field."""
    for problem in problems_of({"name": "untitled", **draft}):
        section, *rest = problem.partition(": ")[0].split(".")
        is_section = section in ("model", "training", "evaluation", *Machine.model_fields)
        if is_section or (section in SECTIONS and _is_advanced(rest, SECTIONS[section][0], draft[section])):
            form.open_expander(ADVANCED)
        elif rest and section in (*DIAL_KEYS, "tune"):
            options = Tune if section == "tune" else options_of(section, draft[section])
            if rest[0] in options.advanced:
                form.open_expander(section)
        elif section == "algorithms" and len(rest) > 1:
            uid, entry = ids()[int(rest[0])], draft["algorithms"][int(rest[0])]
            is_in_more = rest[1] in ("label", "training", "tune", *DIAL_KEYS, *_tunable(entry, draft))
            if is_in_more or _is_advanced(rest[1:], ALGORITHMS, entry):
                form.open_expander(uid)


def _tunable(entry: Mapping[str, Any], draft: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a method that the draft tunes unless they are set, with their defaults."""
    parameters = ALGORITHMS.get(entry["name"]).parameters if "tune" in draft else ()
    return {p.name: p.default for p in parameters if p.tune}


def _is_advanced(path: Sequence[str], registry: Registry, chosen: Mapping[str, Any]) -> bool:
    return bool(path) and path[0] in registry.get(chosen["name"]).options.advanced


def _dials(config: Mapping[str, Any], dropped: list[str]) -> dict[str, dict[str, Any]]:
    """The dials that are on."""
    found = {}
    for dial in (dial for dial in DIAL_KEYS if config.get(dial) is not None):
        given = config[dial]
        if dial in OPTION_DIALS:
            if isinstance(given, Mapping):
                found[dial] = dict(given)
            else:
                dropped.append(_no("mapping of names to values", dial, given))
        elif (named := _named(given))["name"] in DIALS[dial]:
            found[dial] = named
        else:
            dropped.append(f"no {DIALS[dial].kind} named {shown(named['name'])}; {dial} is off")
    return {
        dial: _known(values, options_of(dial, values), dial, dropped, *(["name"] if dial in DIALS else []))
        for dial, values in found.items()
    }


def _named(raw: Any) -> dict[str, Any]:
    return {**raw, "name": str(raw.get("name", ""))} if isinstance(raw, Mapping) else {"name": str(raw)}


def _method(raw: Any, place: int, dropped: list[str]) -> dict[str, Any]:
    entry = _named(raw)
    for part in ("sweep", "tune"):
        given = entry.get(part)
        if isinstance(given, Mapping) and len(given) > MAX_DRAWN:
            dropped.append(f"algorithms.{place}.{part}: {len(given):,} options are too many; it was ignored")
            del entry[part]
    path, parts = f"algorithms.{place}", ("sweep", "training", "tune")
    own = {part: _mapping(entry[part], f"{path}.{part}", dropped) for part in parts if entry.get(part) is not None}
    if "training" in own:
        own["training"] = _known(own["training"], Training, f"{path}.training", dropped)
    rest = {key: value for key, value in entry.items() if key not in parts}
    if entry["name"] in ALGORITHMS:
        rest = _known(rest, ALGORITHMS.get(entry["name"]).options, path, dropped, "name", "label", *DIAL_KEYS)
    return rest | own


def _known(
    values: Mapping[str, Any], options: type[Options], path: str, dropped: list[str], *further: str
) -> dict[str, Any]:
    """The values of these ``options``, and ``further`` keys."""
    known = {*options.model_fields, *further}
    dropped += [f"{path}.{cut(str(key), 40)} is unknown and was ignored" for key in values if key not in known]
    return {key: value for key, value in values.items() if key in known}


def _mapping(raw: Any, path: str, dropped: list[str]) -> dict[str, Any]:
    if isinstance(raw, Mapping):
        return dict(raw)
    dropped.append(_no("mapping of names to values", path, raw))
    return {}


def _no(kind: str, path: str, raw: Any) -> str:
    return f"{path}: {shown(raw)} is not a {kind} and was ignored"


def _next_id() -> str:
    st.session_state[COUNTER] = st.session_state.get(COUNTER, 0) + 1
    return f"m{st.session_state[COUNTER]}"
