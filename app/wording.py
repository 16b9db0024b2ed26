"""Numbers and states as text, formatted the same way on every page."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from pydantic import ValidationError

from engine.core.registry import DATASETS, PARTITIONERS
from engine.core.sizes import size_in_words
from engine.metrics import tail_size
from engine.partitioners import SplitOptions
from storage import RunRecord

MISSING = "–"
MAX_SETTINGS = 3  # in the line above a title
WORD_JOINER = "\u2060"  # has no width; Markdown links even escaped addresses, but not across it

STATUS = {
    "queued": "queued",
    "starting": "starting",
    "running": "running",
    "paused": "paused",
    "done": "done",
    "failed": "failed",
    "cancelled": "cancelled",
    "diverged": "diverged",
    "lost": "lost",
}
STATUS_MEANING = {
    "queued": "waiting for a slot",
    "starting": "loading data",
    "running": "training",
    "paused": "resume it to continue",
    "done": "all rounds completed",
    "failed": "stopped with an error",
    "cancelled": "stopped on request; completed rounds are kept",
    "diverged": "stopped because a loss was no longer finite; completed rounds are kept",
    "lost": "no heartbeat for a while; resumes when a worker is running",
}
NO_WORKER = (
    "No worker is running. With make run it restarts automatically; otherwise start one with python -m engine worker."
)
PRIORITIES = {"high": 1, "normal": 0, "low": -1}
WHEN = {
    "last": "last round",
    "best": "best round, chosen on test",
    "best_val": "best round, chosen on validation",
    "best_some_val": "best round, chosen on validation data if available, otherwise on test data",
}
MODELS = {"personalized": "Personalized", "global": "Global"}


def spans(ids: Iterable[int]) -> str:
    """``[1, 2, 3, 7]`` -> ``1-3,7``."""
    parts: list[list[int]] = []
    for number in sorted(set(ids)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def decimals(samples: float | None, limit: int = 2) -> int:
    """The decimals that a percentage over so many test samples supports: no finer than one sample.

    22 samples have none (one is 4.5 points), 101 have one, 1001 have two.
    """
    if not _is_number(samples) or samples <= 0:
        return limit
    return min(limit, max(0, math.ceil(math.log10(samples) - 2 - 1e-9)))


def percent(x: float | None, digits: int = 2, *, samples: float | None = None) -> str:
    """A fraction as ``97.41 %``, of 22 ``samples`` as ``97 %``."""
    return f"{x * 100:.{decimals(samples, digits)}f} %" if _is_number(x) else MISSING


def percent_pm(mean: float | None, std: float | None, *, samples: float | None = None) -> str:
    """``97.41 ± 0.12 %``: a mean over seeds and its standard deviation, both fractions.

    A wide one has fewer decimals, ``81.4 ± 3.2 %`` and ``64 ± 12 %``, and so has one of few ``samples``; one too narrow
    for these is ``95 ± <1 %``.
    """
    if not _is_number(mean):
        return MISSING
    digits = decimals_pm(std, samples)
    if not _is_number(std):
        return percent(mean, digits)
    least = 1 / 10**digits
    if 0 < 100 * std < least / 2:
        return f"{mean * 100:.{digits}f} ± <{least:g} %"
    return f"{mean * 100:.{digits}f} ± {std * 100:.{digits}f} %"


def decimals_pm(std: float | None, samples: float | None = None) -> int:
    """The decimals of a mean with a standard deviation, both fractions: two significant digits of the latter, at most
    ``decimals``.
    """
    of_spread = 2 if not _is_number(std) or std < 0.01 else 1 if std < 0.1 else 0
    return decimals(samples, of_spread)


def signed_points(x: float | None, samples: float | None = None, limit: int = 2) -> str:
    """A difference of fractions in percentage points: ``+2.10``, ``−0.35``, of 22 ``samples`` ``+5``.

    ``limit`` is the most decimals.
    """
    if not _is_number(x):
        return MISSING
    digits = decimals(samples, limit)
    return f"{round(x * 100, digits) + 0.0:+.{digits}f}".replace("-", "−")  # no minus before 0


def points(gap: float, samples: float | None = None) -> str:
    """``3.2 points``, ``less than 0.05 points``; of few ``samples`` ``3 points``, ``less than 0.5 points``."""
    digits = decimals(samples, 1)
    least = 0.5 / 10**digits
    if 100 * gap < least:
        return f"less than {least:g} points"
    text = f"{100 * gap:.{digits}f}"
    return f"{text} point" if float(text) == 1 else f"{text} points"


def number(x: float | None, digits: int = 3) -> str:
    """``0.0123``, ``12.3``; thousands are written out: ``1665``."""
    if not _is_number(x):
        return MISSING
    return (f"{x:.0f}" if 10**digits - 0.5 <= abs(x) < 1e6 else f"{x:.{digits}g}").replace("-", "−")


def seconds(s: float | None) -> str:
    """A short time, to a meaningful precision: ``12 ms``, ``1.4 s``, ``38 s``."""
    if not _is_number(s):
        return MISSING
    if s < 0.0995:
        return f"{s * 1000:.0f} ms"
    return f"{s:.1f} s" if s < 9.95 else f"{s:.0f} s"


def duration(s: float | None) -> str:
    """A long time: ``8 s``, ``3 min 20 s``, ``2 h 05 min``, ``3 d 4 h``."""
    if not _is_number(s):
        return MISSING
    whole = max(0, math.ceil(s))
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if (minutes := round(whole / 60)) < 60:
        return f"{minutes} min"
    whole = max(whole, 3600)
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def about(s: float) -> str:
    """An estimated time, to the minute: ``under 1 min``, ``9 min``, ``2 h 05 min``."""
    return "under 1 min" if s < 60 else f"{round(s / 60)} min" if s < 600 else duration(s)


def size_bytes(n: float | None) -> str:
    """``size_in_words``; a dash for None and NaN."""
    return size_in_words(n) if _is_number(n) else MISSING


def count(n: float | None) -> str:
    """Thousands separated by a thin space: ``12 345``."""
    return f"{n:,.0f}".replace(",", "\u2009") if _is_number(n) else MISSING


def ordinal(n: int) -> str:
    """``1st``, ``12th``, ``23rd``."""
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def plural(n: int, one: str, many: str | None = None) -> str:
    """``1 run``, ``3 runs``, ``2 losses``."""
    return f"{count(n)} {one if n == 1 else many or one + 's'}"


def clients(n: int, are_benign: bool = False) -> str:
    """``40 clients``, or ``32 benign clients`` where malicious ones are left out."""
    return plural(n, "benign client" if are_benign else "client")


def priority(n: int) -> str:
    """``high``, ``normal`` or ``low``, for any stored value."""
    return "high" if n > 0 else "low" if n < 0 else "normal"


def tail_note(num_clients: int, share: float = 0.05, are_benign: bool = False) -> str:
    """The number of clients in the lowest 5 %: ``2 of 40 clients``, ``2 of 32 benign clients``."""
    return f"{tail_size(num_clients, share)} of {clients(num_clients, are_benign)}"


def kicker(what: RunRecord | Mapping[str, Any] | Sequence[RunRecord]) -> str:
    """``MNIST · 40 CLIENTS · 3 CLASSES EACH · 3 SEEDS``: ``setting`` in capitals, for the line above a title."""
    return capitals(setting(what))


def setting(what: RunRecord | Mapping[str, Any] | Sequence[RunRecord]) -> str:
    """``MNIST · 40 clients · 3 classes each · 3 seeds`` of a configuration, a run, or several runs.

    ``5 splits · 3 seeds`` where several runs have seeds of their own for the data. Runs with other clients follow after
    a slash.
    """
    if isinstance(what, Mapping | RunRecord):
        return _setting(what)
    alike: dict[str, list[RunRecord]] = {}
    for run in what:
        alike.setdefault(data_setting(run.config), []).append(run)
    more = [plural(len(alike) - MAX_SETTINGS, "more setting")] if len(alike) > MAX_SETTINGS else []
    return " / ".join([*map(_setting, list(alike.values())[:MAX_SETTINGS]), *more])


def _setting(what: RunRecord | Mapping[str, Any] | Sequence[RunRecord]) -> str:
    splits: Any = []
    if isinstance(what, Mapping):
        config, seeds, splits = what, what.get("seeds") or [what.get("seed", 0)], what.get("splits")
    elif isinstance(what, RunRecord):
        config, seeds = what.config, [what.seed]
    else:
        config, seeds = what[0].config, {run.seed for run in what}
        splits = {run.split for run in what if "data_seed" in run.config}
    drawn = {"split": splits or [], "seed": seeds}
    counts = {name: len(own) if isinstance(own, list | tuple | set) else 1 for name, own in drawn.items()}
    return " · ".join([data_setting(config), *(plural(n, name) for name, n in counts.items() if n)])


def data_setting(config: Mapping[str, Any]) -> str:
    """``MNIST · 40 clients · 3 classes each``."""
    return " · ".join(_data_words(config))


def unbroken(text: str) -> str:
    """``text`` that does not break within ``44 ± 2 %`` or ``PLGU-LF``."""
    return re.sub(r"(?<=\w)-(?=[A-Z\d])", "\u2011", re.sub(r" (?=[±%=])|(?<=[±=]) ", "\u00a0", text))


def plain(text: str) -> str:
    """Text that Markdown shows literally: no markup, formula, image, link or list."""
    apart = re.sub(r"(?i)(?<=https:)(?=//)|(?<=http:)(?=//)|(?<=www)(?=\.)|(?=@)", WORD_JOINER, text)
    inside = re.sub(r"([\\`*_{}\[\]<>$~:#|@&!])", r"\\\1", apart)
    return re.sub(r"(?m)^(\s*\d*)([-+=.)])(?=\s|$|\2)", r"\1\\\2", inside)


def lines(sentences: Iterable[str]) -> str:
    """Sentences on separate lines, each shown literally."""
    return "  \n".join(map(plain, sentences))


def capital(text: str) -> str:
    """The text with a capital first letter; the others are unchanged, as in ``CGPFL leads``."""
    return capitals(text[:1]) + text[1:]


def capitals(text: str) -> str:
    """The text in capitals, except Greek letters: α is a symbol, and its capital looks like an A."""
    return "".join(letter if "\u0370" <= letter <= "\u03ff" or letter == "µ" else letter.upper() for letter in text)


def names(items: Iterable[str], limit: int = 4, last: str = "and", rest: str = "more") -> str:
    """``a, b and c``; ``a, b, c, d and 3 more``; with ``last`` as ``a, b or c``, with ``rest`` as ``3 others``."""
    items = list(dict.fromkeys(items))
    if len(items) > limit:
        items = [*items[:limit], f"{len(items) - limit} {rest}"]
    return items[0] if len(items) == 1 else f" {last} ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def _data_words(config: Mapping[str, Any]) -> list[str]:
    dataset, split = _choice(config.get("dataset")), _choice(config.get("partition"))
    name = str(dataset["name"])
    words = [DATASETS.short_title(name) if name in DATASETS else name.replace("_", " ")]
    clients = split.get("num_clients") or dataset.get("num_clients")
    if clients:
        words.append(plural(int(clients), "client"))
        evaluated = (config.get("evaluation") or {}).get("clients")
        if isinstance(evaluated, int) and evaluated < int(clients):
            words.append(f"{count(evaluated)} evaluated")
    words.append(_split_words(split))
    participation = (config.get("training") or {}).get("participation", 1.0)
    if isinstance(participation, int | float) and participation < 1:
        words.append(f"C = {participation * 100:g} %")
    return [word for word in words if word]


def _split_words(split: Mapping[str, Any]) -> str:
    name = str(split["name"])
    words = name.replace("_", " ")
    if name not in PARTITIONERS:
        return words
    try:
        options = PARTITIONERS.get(name).options.model_validate({k: v for k, v in split.items() if k != "name"})
    except ValidationError:  # a stored configuration may be older than the options
        return words
    return (isinstance(options, SplitOptions) and options.in_words()) or words


def _choice(raw: Any) -> Mapping[str, Any]:
    """A part of a configuration, given as a name or as a mapping with a name."""
    if isinstance(raw, Mapping):
        return {"name": "", **raw}
    return {"name": raw or ""}


def _is_number(x: float | None) -> TypeGuard[float]:
    return x is not None and math.isfinite(x)
