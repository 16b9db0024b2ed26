"""The settings that act on uploads, where compared runs differ in one of them and in nothing else.

A dial is off if it cannot change a model: without its section, with the plain mean, with devices that lose no upload.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.data import config_fields
from app.data.comparison import NOT_THE_METHOD, SplitSeed, method_name, split_seed_of
from engine.config.schema import DIAL_KEYS, OPTION_DIALS
from engine.config.system import System
from storage import RunRecord

OFF = "off"
SECTIONS = tuple(dict.fromkeys((*DIAL_KEYS, "privacy")))
LETTERS = 16  # of a name on an axis; a longer one is replaced by that of the configuration
UNITS = {"_s": "s", "_mbit": "Mbit/s"}  # endings of options
Setting = Mapping[str, Any]
Runs = dict[SplitSeed, RunRecord]


@dataclass(frozen=True)
class Series:
    """One method at several settings of a dial: words -> its runs by split and seed. ``OFF`` comes first, if there.

    All settings have the same splits and seeds.
    """

    name: str
    algorithm: str
    settings: Mapping[str, Runs]

    @property
    def has_off(self) -> bool:
        return OFF in self.settings

    @property
    def on(self) -> list[str]:
        return [words for words in self.settings if words != OFF]


def is_off(section: str, setting: Setting | None) -> bool:
    """Whether this setting of a dial leaves every model as it is."""
    return setting is None or _OFF.get(section, _never)(setting)


def varied(runs: Iterable[RunRecord]) -> dict[str, list[Series]]:
    """section -> the methods that have several of its settings; sections with none are left out."""
    known = list(runs)
    found = {section: series_of(known, section) for section in SECTIONS}
    return {section: own for section, own in found.items() if own}


def series_of(runs: Sequence[RunRecord], section: str) -> list[Series]:
    """The runs that differ in this dial only, by method; methods with a single setting are left out."""
    words = _words(section, [run.config.get(section) for run in runs])
    groups: dict[str, dict[str, Runs]] = {}
    for run in runs:
        settings = groups.setdefault(_rest(run, section), {})
        settings.setdefault(words[_key(section, run.config.get(section))], {}).setdefault(split_seed_of(run), run)
    kept = [own for settings in groups.values() if len(own := _in_common(settings, words.values())) > 1]
    names = _names(kept, section)
    return [
        Series(name, next(iter(next(iter(own.values())).values())).algorithm, own)
        for name, own in zip(names, kept, strict=True)
    ]


def _in_common(settings: Mapping[str, Runs], order: Iterable[str]) -> dict[str, Runs]:
    """The settings in order, with the splits and seeds that all of them have; nothing if they share none."""
    common = sorted(set.intersection(*(set(own) for own in settings.values())))
    if not common:
        return {}
    return {words: {key: settings[words][key] for key in common} for words in order if words in settings}


def _rest(run: RunRecord, section: str) -> str:
    """Equal for runs that differ in this dial, and otherwise only in their seeds."""
    left_out = {*NOT_THE_METHOD, section}
    return json.dumps(
        {
            name: value
            for name, value in run.config.items()
            if name not in left_out and not (name in SECTIONS and is_off(name, value))
        },
        sort_keys=True,
    )


def _words(section: str, settings: Iterable[Setting | None]) -> dict[str, str]:
    """key -> words, off first and then in order: ``Krum``, ``Top-k, share sent = 0.01``, ``deadline = 1.4 s``."""
    known = [own for own in settings if own is not None]
    on = {key: own for own in known if (key := _key(section, own)) != OFF}
    found = {OFF: OFF}
    for key, own in on.items():
        alike = [other for other in on.values() if other["name"] == own["name"]] if "name" in own else known
        apart = [o for o in own if o != "name" and len({json.dumps(other.get(o)) for other in alike}) > 1]
        name = [config_fields.text(f"{section}.name", own["name"])] if "name" in own else []
        options = apart if name else [o for o in own if o in apart or o in _not_default(section, own)]
        options = [option for option in options if own[option] is not None]
        found[key] = ", ".join([*name, *(_option(section, option, own) for option in options)]) or "on"
    often = Counter(found.values())
    return {key: f"{words} ({key})" if often[words] > 1 else words for key, words in found.items()}


def _not_default(section: str, own: Setting) -> list[str]:
    """The options of a dial without a name that say what it does: those that are not at their defaults."""
    default = OPTION_DIALS[section]().model_dump(mode="json") if section in OPTION_DIALS else {}
    return [option for option, value in own.items() if value != default.get(option) and option not in _CLOCK]


def _option(section: str, option: str, own: Setting) -> str:
    """``share = 0.01``, ``deadline = 1.4 s``, ``tie = labels``."""
    ending, unit = next(((end, unit) for end, unit in UNITS.items() if option.endswith(end)), ("", ""))
    name, _, value = config_fields.setting_in_words(section, option, own).rpartition(" = ")
    if unit or len(name) > LETTERS:
        name = option.removesuffix(ending).replace("_", " ")
    return f"{name} = {value} {unit}".rstrip()


def _key(section: str, setting: Setting | None) -> str:
    return OFF if is_off(section, setting) else json.dumps(setting, sort_keys=True)


def _names(series: Sequence[Mapping[str, Runs]], section: str) -> list[str]:
    """A name for each: that of its method without this dial, extended where two would be equal."""
    firsts = [next(iter(next(iter(own.values())).values())) for own in series]
    found = [method_name(_without(run.label, section), run.algorithm) for run in firsts]
    for extend in (_fields_apart(firsts, found), {run.id: f"run {run.id}" for run in firsts}):
        often = Counter(found)
        found = [
            f"{name}, {extend[run.id]}" if often[name] > 1 and extend[run.id] else name
            for name, run in zip(found, firsts, strict=True)
        ]
    return found


def _fields_apart(runs: Sequence[RunRecord], names: Sequence[str]) -> dict[int, str]:
    """run -> the settings in which it differs from the others of its name."""
    found = {}
    for run, name in zip(runs, names, strict=True):
        configs = [config_fields.flat(other.config) for other, own in zip(runs, names, strict=True) if own == name]
        mine = config_fields.flat(run.config)
        apart = [f for f in mine if len({json.dumps(config.get(f)) for config in configs}) > 1]
        found[run.id] = ", ".join(config_fields.value_of(field, run) for field in apart)
    return found


def _without(label: str, section: str) -> str:
    """``FedAvg aggregator=median`` -> ``FedAvg``: a label without the words of a sweep over this dial."""
    options = OPTION_DIALS[section].model_fields if section in OPTION_DIALS else ()
    kept = [part for part in label.split(" ") if not ("=" in part and _is_of(part.partition("=")[0], section, options))]
    return " ".join(kept) or label


def _is_of(key: str, section: str, options: Iterable[str]) -> bool:
    return key == section or key.startswith(f"{section}.") or key in options


def _never(setting: Setting) -> bool:
    return False


def _loses_nothing(setting: Setting) -> bool:
    system = System.model_validate(setting)
    return not system.loses_uploads and system.availability == 1


_CLOCK = ("compute_s", "compute_spread", "up_mbit", "down_mbit", "link_spread")  # decide on times alone
_OFF: Mapping[str, Callable[[Setting], bool]] = {
    "attack": lambda own: own.get("share") == 0 or (own["name"] == "sign_flip" and own.get("scale") == -1),
    "aggregator": lambda own: own["name"] == "mean",
    "compression": lambda own: own["name"] == "none",
    "system": _loses_nothing,
    "privacy": lambda own: own.get("unit") == "none",
}
