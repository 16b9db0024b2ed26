"""The methods of Set up: their hyper-parameters and sweeps."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.components import page
from app.data.glossary import definition
from app.forms import Form, read_list
from app.setup import draft as drafts
from app.setup.sections import listed, pick, titled, training_fields, words
from app.wording import plain
from engine.config.schema import Training
from engine.core.registry import ALGORITHMS


def algorithms_section(form: Form, draft: Mapping[str, Any], training: Mapping[str, Any]) -> list[dict[str, Any]]:
    st.header("Algorithms", anchor=False)
    form.spot("algorithms")
    places = zip(drafts.ids(), draft["algorithms"], strict=True)
    entries = [_algorithm(form, place, uid, entry, training) for place, (uid, entry) in enumerate(places)]
    st.selectbox(
        "Add a method",
        list(ALGORITHMS.names()),
        index=None,
        key=f"{form.prefix}.add",
        placeholder="Add a method",
        format_func=titled(ALGORITHMS),
        label_visibility="collapsed",
        on_change=_add,
        args=(f"{form.prefix}.add",),
    )
    return entries


def sweep_section(
    form: Form, draft: Mapping[str, Any], entries: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], Any]:
    """Returns (algorithms with their sweeps, seeds). A run for each combination of a method's values and each seed."""
    st.header("Sweep and seeds", anchor=False)
    ids = drafts.ids()
    offered = {
        f"{uid}.{name}": (uid, name) for uid, entry in zip(ids, entries, strict=True) for name in _variable(entry)
    }
    titles = {
        uid: entry.get("label", ALGORITHMS.get(entry["name"]).title) for uid, entry in zip(ids, entries, strict=True)
    }
    given = [f"{uid}.{name}" for uid, e in zip(ids, entries, strict=True) for name in e.get("sweep", {})]
    state = f"{form.prefix}.vary"
    form.start(state, given)
    chosen = [choice for choice in st.session_state[state] if choice in offered]
    if chosen != st.session_state[state]:
        st.session_state[state] = chosen
    left, right = st.columns([3, 2], gap="medium")
    with left:
        varied = st.multiselect(
            "Vary",
            list(offered),
            key=state,
            placeholder="nothing: one setting per method",
            format_func=lambda choice: f"{titles[offered[choice][0]]}: {words(offered[choice][1])}",
        )
    with right:
        about = f"Comma-separated whole numbers; every run is repeated with each. {definition('Seed')}"
        seeds = form.text("Seeds", listed(draft["seeds"]), "seeds", help=about)
    swept = []
    for place, (uid, entry) in enumerate(zip(ids, entries, strict=True)):
        names = [offered[choice][1] for choice in varied if offered[choice][0] == uid]
        swept.append(_sweep(form, place, uid, entry, names, titles[uid], draft["training"]))
    return swept, read_list(seeds)


def _algorithm(
    form: Form, place: int, uid: str, entry: Mapping[str, Any], training: Mapping[str, Any]
) -> dict[str, Any]:
    """One method: its name and hyper-parameters; under More its label and its own training options."""
    path = f"algorithms.{place}"
    with st.container(key=f"{form.prefix}.{uid}.card", gap="small"):
        left, *buttons = st.columns([6, 1.4, 1.6], vertical_alignment="bottom", gap="small")
        with left:
            name = pick(form, ALGORITHMS, entry["name"], f"Method {place + 1}", path, key=f"{uid}.name")
        values = entry if entry["name"] == name else {}
        with buttons[0], form.popover("More", f"{uid}.more"):
            extra = _more(form, path, f"{uid}.{name}", name, values, training)
        buttons[1].button(
            "Remove",
            key=f"{form.prefix}.{uid}.remove",
            type="tertiary",
            args=(place,),
            on_click=drafts.remove_algorithm,
        )
        options = ALGORITHMS.get(name).options
        stand_ins = _stand_ins(options, training)
        chosen = form.options(options, values, path, key=f"{uid}.{name}", stand_ins=stand_ins, columns=3)
        if extra.get("training"):
            st.caption(plain("Trains with " + ", ".join(f"{words(k)} {v}" for k, v in extra["training"].items())))
    return {"name": name, **extra, **chosen, **({"sweep": values["sweep"]} if values.get("sweep") else {})}


def _more(
    form: Form, path: str, key: str, name: str, values: Mapping[str, Any], training: Mapping[str, Any]
) -> dict[str, Any]:
    """A link to the handbook, and a method's own label and training options."""
    page.link("handbook", "In the handbook", method=name)
    label = form.text("Label", str(values.get("label", "")), f"{path}.label", key=f"{key}.label", placeholder=name)
    own = {k: v for k, v in dict(values.get("training") or {}).items() if k in Training.model_fields}
    fields = st.multiselect(
        "Own training options",
        list(Training.model_fields),
        placeholder="none: as set under Training",
        format_func=words,
        **form.start(f"{form.prefix}.{key}.differs", list(own), "default"),
    )
    if {"local_steps", "local_epochs"} <= set(fields):
        fields.remove("local_epochs")
    override = training_fields(form, {**training, **own}, f"{path}.training", fields, key=f"{key}.training")
    return ({"label": label} if label.strip() else {}) | ({"training": override} if override else {})


def _sweep(
    form: Form, place: int, uid: str, entry: dict[str, Any], names: list[str], title: str, training: Mapping[str, Any]
) -> dict[str, Any]:
    """The values that one method sweeps over."""
    common = {**Training().model_dump(), **training, **(entry.get("training") or {})}
    settings = {**{f"training.{field}": value for field, value in common.items()}, **entry}
    path, given = f"algorithms.{place}", dict(entry.get("sweep") or {})
    values = {}
    for name in names:
        start = listed(given.get(name, _first_values(settings, name)))
        label, key = plain(f"{title}: values of {words(name)}"), f"{uid}.sweep.{name}"
        typed = form.text(label, start, f"{path}.sweep.{name}", key=key, help="Comma-separated values")
        values[name] = read_list(typed)
    rest = {k: v for k, v in entry.items() if k != "sweep"}
    return {**rest, "sweep": values} if values else rest


def _variable(entry: Mapping[str, Any]) -> list[str]:
    """The options that a sweep may vary, and those that the draft already varies."""
    own = [p.name for p in ALGORITHMS.get(entry["name"]).parameters]
    known = [*own, *(f"training.{field}" for field in Training.model_fields)]
    return [*known, *(name for name in entry.get("sweep") or {} if name not in known)]


def _add(key: str) -> None:
    if st.session_state[key]:
        drafts.add_algorithm(st.session_state[key])
        st.session_state[key] = None


def _stand_ins(options: Any, training: Mapping[str, Any]) -> dict[str, Any]:
    """The current value of each option set to ``"training"``."""
    named = {n: f.json_schema_extra for n, f in options.model_fields.items()}
    return {
        n: training.get(str(extra["training"]))
        for n, extra in named.items()
        if isinstance(extra, dict) and "training" in extra
    }


def _first_values(settings: Mapping[str, Any], name: str) -> list[Any]:
    """Default values of a sweep: half, same, double; none for unset options."""
    value = settings.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return [] if value is None else [value]
    half = value / 2 if isinstance(value, float) else value // 2
    return sorted({half, value, value * 2} - {0})
