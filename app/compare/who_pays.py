"""The panel "Who pays for it?": what a setting that acts on uploads costs the mean, the lowest, and each client.

Drawn where the chosen runs have several settings of an attack, aggregator, compressor, system or privacy. A client is
compared with itself under the same method, seed and partition, with the setting off.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd
import streamlit as st

from app.charts import dial_settings, who_pays
from app.charts.plot import figure_cache
from app.charts.plot.method_styles import looks
from app.compare import chosen_clients
from app.compare.section import Part
from app.compare.view import View
from app.components import page
from app.components.shown import Shown, with_finding
from app.data import client_traits, config_fields, dials, queries
from app.data.column_heads import Head, percent
from app.data.comparison import SplitSeed
from app.data.dials import OFF, Series
from app.state.choice import Choice, Choices
from app.wording import capital, names, plain
from app.wording import clients as in_words
from storage import RunRecord

QUESTION = "Who pays for it?"

T = TypeVar("T")


def draw(view: View) -> None:
    varied = dials_of(view)
    if not varied:
        return
    dial = dial_choice(varied)
    panel = Panel(view, dial.value(), varied[dial.value()])
    payer = panel.payer.value()
    setting = panel.setting(payer).value() if payer else ""
    page.section(panel.heading(payer, setting))
    with st.container(horizontal=True, vertical_alignment="bottom", key="pays_controls"):
        if len(varied) > 1:
            dial.pick()
        if payer:
            panel.payer.pick()
            panel.setting(payer).pick()
            trait = panel.trait(payer, setting)
            touched = trait.pick() if trait.titles else ""
    if not payer:
        page.show(panel.settings())
        st.info(plain(panel.without_off()))
        return
    left, right = st.columns(2, gap="large")
    with left:
        page.show(panel.settings())
    with right:
        choose = chosen_clients.by_selection("who_pays", lambda who: [int(who[0])])
        page.show(panel.each(payer, setting, touched, chosen_clients.chosen(view)), on_select=choose, has_frame=True)


def part(view: View, choices: Choices) -> Part | None:
    varied = dials_of(view)
    if not varied:
        return None
    section = dial_choice(varied).made_in(choices)
    panel = Panel(view, section, varied[section])
    payer = panel.payer.made_in(choices)
    if not payer:
        return Part(panel.heading("", ""), (panel.settings(),))
    setting = panel.setting(payer).made_in(choices)
    touched = panel.trait(payer, setting).made_in(choices)
    each = panel.each(payer, setting, touched, chosen_clients.chosen(view, choices))
    return Part(panel.heading(payer, setting), (panel.settings(), each))


def dials_of(view: View) -> dict[str, list[Series]]:
    """The dials that vary among the runs; none for results that ship with the product, which have no arrays."""
    return view.keep("dials", lambda: dials.varied(view.runs.values())) if view.is_stored else {}


def dial_choice(varied: Mapping[str, object]) -> Choice:
    titles = {section: config_fields.SECTIONS.get(section, section.capitalize()) for section in varied}
    return Choice("Setting of", titles, "dial", next(iter(titles)))


@dataclass(frozen=True)
class Panel:
    """One dial of a comparison."""

    view: View
    section: str
    series: Sequence[Series]

    @property
    def payer(self) -> Choice:
        """A method that also ran with the dial off; by default the one whose lowest clients fall most."""
        named = {one.name: one.name for one in self.series if one.has_off and one.on}
        steepest = (m for m in dial_settings.falls(self.table, OFF)["method"] if m in named)
        return Choice("Method", named, "payers", next(steepest, next(iter(named), "")))

    def setting(self, payer: str) -> Choice:
        """By default the one that costs this method's lowest clients most."""
        on = {words: words for words in self._of(payer).on}
        falls = dial_settings.falls(self.table, OFF)
        steepest = (words for words in falls.loc[falls["method"] == payer, "setting"] if words in on)
        return Choice("With", on, "setting", next(steepest, next(iter(on))))

    def trait(self, payer: str, setting: str) -> Choice:
        """What the color of a client shows."""
        known = self._traits(payer, setting)
        titles = {name: client_traits.TRAITS[name].title for name in known}
        return Choice("Color by", titles, "touched", next(iter(titles), ""))

    @property
    def table(self) -> pd.DataFrame:
        """``dial_settings.data`` over the clients that are benign at every setting."""
        return self._keep("settings", lambda: dial_settings.data(self._benign, self.view.share))

    def heading(self, payer: str, setting: str) -> str:
        return who_pays.heading(self._clients(payer, setting, ""), payer, setting) if payer else QUESTION

    def settings(self) -> Shown:
        table, left_out = self.table, dial_settings.left_out(self.table)
        clients = " or ".join(dict.fromkeys(self._words(count) for count in table["clients"]))
        tails = " or ".join(dict.fromkeys(f"{row.tail} of {self._words(row.clients)}" for row in table.itertuples()))
        lines = f" No line: {names(left_out)}." if left_out else ""
        spread = (
            f" Whisker: ± one standard deviation over {self.view.spread}." if table["mean_pm"].notna().any() else ""
        )
        return with_finding(
            figure_cache.figure(dial_settings.figure, table, self.view.share),
            table.drop(columns=["samples", "tail_samples"]),
            dial_settings.finding(table, OFF, self.view.share, clients),
            key="dial_settings",
            name=f"{self.section}-settings",
            title=f"Mean and lowest {self.view.tail} % by {self._title.lower()}",
            also=f"{self.view.rule.capitalize()}; lowest {self.view.tail} % = {tails}.{spread}{lines}",
            heads={"setting": Head(self._title)},
        )

    def each(self, payer: str, setting: str, trait: str, chosen: Sequence[int]) -> Shown:
        rows, touched = self._clients(payer, setting, trait), _touched(trait)
        columns = {who_pays.ON: f"{payer} accuracy, {setting}", who_pays.OFF: f"{payer} accuracy, {OFF}"}
        change = dial_settings.change(self.table, payer, setting, OFF)
        color = looks(self.table)[payer].color
        return with_finding(
            figure_cache.figure(who_pays.figure, rows, touched, color, chosen),
            rows.rename(columns=columns),
            who_pays.finding(rows, touched),
            key="who_pays",
            name=f"{self.section}-by-client",
            title=f"{payer}, {setting}: each client with and without it",
            also=f"{capital(change)}. {self._paired(rows)}",
            hint="Click a mark to choose the client.",
            heads={
                columns[who_pays.ON]: percent("With it"),
                columns[who_pays.OFF]: percent("Off"),
                "is_malicious": Head("Malicious"),
                "touched": Head(touched.title if touched else "Trait"),
            },
        )

    def without_off(self) -> str:
        return f"To compare clients with and without it, add a run with {self._title.lower()} off."

    @property
    def _title(self) -> str:
        return config_fields.SECTIONS.get(self.section, self.section.capitalize())

    def _words(self, count: int) -> str:
        return in_words(count, bool(self._everyone["is_malicious"].any()))

    def _paired(self, rows: pd.DataFrame) -> str:
        seeds = int(rows["seeds"].max()) if len(rows) else 1
        over = f", mean over {seeds} seeds" if seeds > 1 else ""
        hollow = " Hollow: malicious, not counted." if rows["is_malicious"].any() else ""
        return f"Paired: same method, seed and partition{over}.{hollow}"

    def _of(self, payer: str) -> Series:
        return next(one for one in self.series if one.name == payer)

    @property
    def _everyone(self) -> pd.DataFrame:
        """[method, algorithm, setting, run, split, seed, client, accuracy, test_size, is_malicious] of all series."""
        return self._keep("clients", self._read)

    def _read(self) -> pd.DataFrame:
        rows = [
            (run.id, one.name, one.algorithm, setting)
            for one in self.series
            for setting, own in one.settings.items()
            for run in own.values()
        ]
        heads = pd.DataFrame(rows, columns=["run", "method", "algorithm", "setting"])
        runs = [self.view.runs[run_id] for run_id in dict.fromkeys(heads["run"])]
        found = queries.all_clients(runs, self.view.model, self.view.when).drop(columns=["label", "algorithm"])
        place = {words: i for i, words in enumerate(self._order)}
        both = heads.merge(found, on="run")
        return both.sort_values("setting", key=lambda own: own.map(place), kind="stable").reset_index(drop=True)

    @property
    def _order(self) -> list[str]:
        """All settings, off first."""
        found = dict.fromkeys(words for one in self.series for words in one.settings)
        return sorted(found, key=lambda words: words != OFF)

    @property
    def _benign(self) -> pd.DataFrame:
        """Without clients that are malicious at some setting of a method: summaries are over the same clients."""
        own = self._everyone
        is_malicious = own.groupby(["method", "split", "seed", "client"])["is_malicious"].transform("any")
        return own[~is_malicious.astype(bool)]

    def _clients(self, payer: str, setting: str, trait: str) -> pd.DataFrame:
        """``who_pays.data`` of one method and setting."""
        own = self._everyone
        own = own[(own["method"] == payer) & own["setting"].isin([OFF, setting])]
        side = own["setting"].map({OFF: who_pays.OFF, setting: who_pays.ON})
        values = self._traits(payer, setting).get(trait, pd.DataFrame(columns=["split", "client", "touched"]))
        return self._keep(
            (payer, setting, trait),
            lambda: who_pays.data(own.assign(setting=side, is_malicious=own["is_malicious"].astype(bool)), values),
        )

    def _traits(self, payer: str, setting: str) -> dict[str, pd.DataFrame]:
        """trait -> [split, client, touched] in the runs with this setting, means over the seeds of a split."""
        return self._keep(("traits", payer, setting), lambda: _traits(self._of(payer).settings[setting], self.section))

    def _keep(self, what: object, make: Callable[[], T]) -> T:
        return self.view.keep(("who pays", self.section, what), make)


def _traits(runs: Mapping[SplitSeed, RunRecord], section: str) -> dict[str, pd.DataFrame]:
    parts: dict[str, list[pd.DataFrame]] = {}
    for (split, _), run in runs.items():
        for name, values in client_traits.known(run, section).items():
            rows = pd.DataFrame({"split": split, "client": np.arange(len(values)), "touched": values})
            parts.setdefault(name, []).append(rows)
    return {
        name: pd.concat(own).groupby(["split", "client"], as_index=False)["touched"].mean()
        for name, own in parts.items()
    }


def _touched(trait: str) -> who_pays.Touched | None:
    known = client_traits.TRAITS.get(trait)
    return None if known is None else who_pays.Touched(known.title, known.words, trait == "malicious")
