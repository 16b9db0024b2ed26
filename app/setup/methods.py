"""The methods of Set up: their hyper-parameters and sweeps."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from app.components import page
from app.data.entry_text import text_of
from app.data.families import by_family
from app.forms import Form, changes, in_words, kept, name_in_words, parameters_of
from app.setup import draft as drafts
from app.setup import sweeps
from app.setup.dial_options import in_words as dial_in_words
from app.setup.local_training import training_fields
from app.setup.own_dials import own_dials, swept_options
from app.setup.sections import first_level, pick
from app.setup.sweep_fields import Sweeps
from app.setup.sweeps import OF_TRAINING, PARAMETERS
from app.setup.tuning import Tuned, range_fields
from app.wording import plain
from engine.config.options import Training
from engine.config.schema import DIAL_KEYS
from engine.core.errors import cut
from engine.core.registry import ALGORITHMS, Entry, Options

MAX_LETTERS = 30  # of a method's label in the label of its section


def methods_section(form: Form, draft: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The methods with their own sweeps, without those that all methods share."""
    st.header("Methods", anchor=False)
    form.placeholder("algorithms")
    shared = sweeps.shared(draft)
    places = enumerate(zip(drafts.ids(), draft["algorithms"], strict=True))
    drawn = [_method(form, place, uid, entry, draft, shared) for place, (uid, entry) in places]
    last_id = drafts.last_id()
    adding = f"{form.prefix}.add.{last_id}"
    st.selectbox(
        "Add a method",
        [entry.name for entries in by_family(ALGORITHMS).values() for entry in entries],
        index=None,
        key=adding,
        placeholder="Add a method: type a name, a family or what you need",
        format_func=_offered,
        filter_mode="contains",
        label_visibility="collapsed",
        on_change=_add,
        args=(adding, last_id),
    )
    return drawn


def shared_sweeps(form: Form, draft: Mapping[str, Any]) -> Sweeps:
    """The fields of training and dials that all methods have."""
    entries = draft["algorithms"]

    def places(name: str) -> list[int]:
        return [place for place, entry in enumerate(entries) if not sweeps.has_own(entry, name)]

    return Sweeps(form, sweeps.shared(draft), places, "training")


def with_shared(entries: Sequence[dict[str, Any]], draft: Mapping[str, Any], swept: Sweeps) -> list[dict[str, Any]]:
    """The methods with all their sweeps."""
    of_all = {**swept.given, **swept.values}
    old = [list(entry.get("sweep") or {}) for entry in draft["algorithms"]]
    return [sweeps.merge_sweeps(entry, of_all, order) for entry, order in zip(entries, old, strict=True)]


def _method(
    form: Form,
    place: int,
    uid: str,
    entry: Mapping[str, Any],
    draft: Mapping[str, Any],
    shared: Mapping[str, Any],
) -> dict[str, Any]:
    """One method: its name and main hyper-parameters; its other options are in a collapsed section."""
    training = draft["training"]
    path = f"algorithms.{place}"
    with st.container(key=f"{form.prefix}.{uid}.card", gap="xsmall"):
        remove = partial(_remove_button, f"{form.prefix}.{uid}.remove", uid)
        title = f"Method {place + 1}"
        name = pick(form, ALGORITHMS, entry["name"], title, path, key=f"{uid}.name", beside=remove)
        st.caption(plain(_reason(ALGORITHMS.get(name))))
        values = entry if entry["name"] == name else {}
        dials = {dial: values[dial] for dial in DIAL_KEYS if dial in values}
        if dials:
            st.caption(
                plain(f"For this method only: {'; '.join(dial_in_words(dial, own) for dial, own in dials.items())}.")
            )
        given = {
            option: swept
            for option, swept in (values.get("sweep") or {}).items()
            if option not in shared or sweeps.has_own(values, option)
        }
        options, key = ALGORITHMS.get(name).options, f"{uid}.{name}"
        tuned = Tuned(options, values) if "tune" in draft else None
        in_study, what_is_tuned = (tuned.options if tuned else []), st.empty()
        first, advanced = (_without(names, in_study) for names in (first_level(options), options.advanced))
        of_dials = swept_options(dials, draft)
        swept = Sweeps(form, given, lambda _: [place], key)
        how: dict[str, Any] = {"key": key, "stand_ins": _stand_ins(options, training), "draw": swept.draw()}
        chosen = form.options(options, values, path, only=first, **how)
        for option in given:
            if option not in (*options.model_fields, *PARAMETERS) and option not in of_dials:
                swept.unknown(option)
        more_options = form.expander("More", uid, _changed(options, advanced, values, given, of_dials), "compact")
        if form.is_open(uid):
            with more_options:
                extra = _label(form, path, key, name, values)
                if tuned:
                    fixed = _fixed(form, key, tuned) if in_study else []
                    chosen |= form.options(options, values, path, only=fixed, **how)
                    if own_ranges := range_fields(form, path, key, tuned, fixed):
                        extra["tune"] = own_ranges
                chosen |= form.options(options, values, path, only=advanced, **how)
                extra |= _own_training(form, path, key, values, training, swept)
                dials = own_dials(form, path, key, values, draft, swept)
        else:
            extra = {option: values[option] for option in ("label", "training") if values.get(option)}
            extra |= {"tune": values["tune"]} if tuned and "tune" in values else {}
            chosen |= {option: values[option] for option in in_study if option in values}
            chosen |= kept(options, values, advanced)
            swept.values = given | swept.values
    if tuned and values.get("tune") == {}:
        extra["tune"] = {}
    drawn = {"name": name, **extra, **chosen, **dials, **({"sweep": swept.values} if swept.values else {})}
    if tuned:
        what_is_tuned.caption(plain(Tuned(options, drawn | {"sweep": {**shared, **swept.values}}).in_words))
    return drawn


def _offered(name: str) -> str:
    """``Ditto · Regularized toward a shared model · when a simple and strong reference is needed``."""
    entry = ALGORITHMS.get(name)
    when = _words(entry, "When").rstrip(".")
    return " · ".join(filter(None, [entry.title, entry.family, when and f"when {when}"]))


def _reason(entry: Entry) -> str:
    """When to use the method, and what it needs; its summary if its docstring does not say."""
    when, needs = _words(entry, "When"), _words(entry, "Needs")
    first = f"When {when}" if when else text_of(entry).summary
    return f"{first} Needs {needs}" if needs else first


def _words(entry: Entry, label: str) -> str:
    """A paragraph of the docstring, without the marks of code; empty if there is none."""
    return text_of(entry).labeled.get(label, "").replace("`", "")


def _remove_button(key: str, uid: str) -> None:
    st.button("Remove", key=key, type="tertiary", on_click=drafts.remove_algorithm, args=(uid,))


def _fixed(form: Form, key: str, tuned: Tuned) -> list[str]:
    """The options that a study leaves as they are set."""
    return st.multiselect(
        "Not tuned",
        tuned.options,
        placeholder="none: all these options are tuned",
        format_func=tuned.name,
        help="Options to set by hand instead",
        **form.start(f"{form.prefix}.{key}.fixed", tuned.fixed),
    )


def _without(names: Collection[str], others: Collection[str]) -> list[str]:
    return [name for name in names if name not in others]


def _changed(
    options: type[Options],
    advanced: Collection[str],
    values: Mapping[str, Any],
    given: Mapping[str, Any],
    of_dials: Collection[str],
) -> list[str]:
    """The values in a method's section that differ from the defaults, in words; its own dials have a line."""
    label = [f"label “{cut(str(values['label']), MAX_LETTERS)}”"] if values.get("label") else []
    set_here = {option: value for option, value in values.items() if option not in given}
    found = label + changes(options, set_here, advanced)
    own = {f"{OF_TRAINING}{option}": value for option, value in (values.get("training") or {}).items()}
    found += [
        in_words(PARAMETERS[option], value)
        for option, value in own.items()
        if option in PARAMETERS and option not in given
    ]
    more_options = (*advanced, *PARAMETERS)
    found += [sweeps.in_words(option, options) for option in given if option in more_options]
    return found + [f"{option} swept" for option in given if option in of_dials]


def _label(form: Form, path: str, key: str, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    left, right = st.columns(2, vertical_alignment="bottom", gap="medium")
    with left:
        label = form.text("Label", str(values.get("label", "")), f"{path}.label", key=f"{key}.label", placeholder=name)
    with right:
        page.link("handbook", "In the handbook", method=name)
    return {"label": label} if label.strip() else {}


def _own_training(
    form: Form, path: str, key: str, values: Mapping[str, Any], training: Mapping[str, Any], swept: Sweeps
) -> dict[str, Any]:
    """Training options in which one method differs from the others."""
    own = {k: v for k, v in dict(values.get("training") or {}).items() if k in Training.model_fields}
    of_sweeps = [option for option in sweeps.of_training(swept.given) if option not in own]
    names = {p.name: p for p in parameters_of(Training)}
    fields = st.multiselect(
        "Training options for this method only",
        list(names),
        placeholder="same as all methods",
        format_func=lambda option: name_in_words(names[option]),
        **form.start(f"{form.prefix}.{key}.differs", [*own, *of_sweeps]),
    )
    if {"local_steps", "local_epochs"} <= set(fields):
        fields.remove("local_epochs")
    draw = swept.draw(OF_TRAINING)
    override = training_fields(form, {**training, **own}, f"{path}.training", fields, draw, key=f"{key}.training")
    return {"training": override} if override else {}


def _add(key: str, last_id: int) -> None:
    """Add the method chosen in the list, which is a new one after each addition.

    The browser reports the choice again until it has received the new list.
    """
    if last_id == drafts.last_id() and (name := st.session_state.get(key)):
        drafts.add_algorithm(name)


def _stand_ins(options: type[Options], training: Mapping[str, Any]) -> dict[str, Any]:
    """The current value of each option set to ``"training"``."""
    named = {n: f.json_schema_extra for n, f in options.model_fields.items()}
    return {
        n: training.get(str(extra["training"]))
        for n, extra in named.items()
        if isinstance(extra, dict) and "training" in extra
    }
