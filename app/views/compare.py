"""Compare: who gains, who is left behind, how fast, at what price? Every choice on this page is in its address."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args

import pandas as pd
import streamlit as st

from app import address, queries, selection, tables
from app.charts import cluster_raster, cost, curves_over_seeds, differences, dumbbell, ecdf, paired, sweep
from app.comparability import conflicts, notes, same_clients
from app.comparison import Method, methods_of, per_run, with_methods
from app.components import page
from app.headline import headline
from app.palette import is_presenting
from app.wording import MODELS, WHEN, kicker, names, percent, plural
from engine.registry import ALGORITHMS
from storage import RunRecord

QUESTION = "Who gains, who is left behind?"
TAILS = {"5": "5 %", "10": "10 %"}
ROUNDS = {"last": "Last round", "best": "Best round"}
SORTS = {"mean": "mean", "lowest": "lowest", "top": "top", "spread": "least spread"}
AXES = {"round": "Rounds", "megabytes": "Megabytes", "gradient_evaluations": "Gradients", "seconds": "Seconds"}
COSTS = {name: AXES[name] for name in cost.COST_NAMES}


@dataclass(frozen=True)
class View:
    """What is compared, and what the address says of how."""

    methods: tuple[Method, ...]
    model: queries.Model
    when: queries.When
    tail: int

    @property
    def share(self) -> float:
        return self.tail / 100

    @property
    def other_model(self) -> queries.Model:
        return "global" if self.model == "personalized" else "personalized"

    @property
    def run_ids(self) -> list[int]:
        return [run_id for method in self.methods for run_id in method.run_ids]

    @property
    def rule(self) -> str:
        """``personalized model, best round, chosen on test``."""
        validated = any(run.config["partition"].get("val_fraction") for method in self.methods for run in method.runs)
        return f"{self.model} model, {WHEN['best_val' if self.when == 'best' and validated else self.when]}"

    def clients(self, model: queries.Model | None = None, when: queries.When | None = None) -> pd.DataFrame:
        found = queries.final_clients(self.run_ids, model or self.model, when or self.when)
        return with_methods(found, self.methods)

    def series(self) -> pd.DataFrame:
        wanted = [f"{self.model}.mean", f"{self.model}.lowest5", *curves_over_seeds.COSTS]
        return with_methods(queries.scalar_series(self.run_ids, wanted), self.methods)


def render() -> None:
    page.require_store()
    runs = selection.with_rounds(queries.runs())
    ids = [run.id for run in selection.from_address(runs)]
    chosen = queries.runs(run_ids=ids, with_partition=True, include_archived=True)
    methods = tuple(methods_of(chosen))
    if len(methods) < 2:
        too_few(runs, chosen)
        return
    view = View(
        methods, cast(queries.Model, address.value("model", MODELS, "personalized")),
        cast(queries.When, address.value("when", ROUNDS, "last")), int(address.value("tail", TAILS, "5")),
    )  # fmt: skip
    clients = view.clients()
    finding = headline(per_run(clients, view.share), view.share) if len(clients) else None
    page.header(kicker(chosen), QUESTION, finding)
    controls(runs, chosen)
    cautions(view)
    if clients.empty:
        st.info(f"None of these methods has a {view.model} model; switch to {MODELS[view.other_model]}.")
        return
    distribution(view, clients)
    over_time(view, clients)
    who_loses(view, clients)
    clustered(view, clients)
    swept(view, clients)
    numbers(view, clients)


def too_few(runs: list[RunRecord], chosen: list[RunRecord]) -> None:
    """Fewer than two methods: what there is, and where more come from."""
    page.header(kicker(chosen) if chosen else "NO RUNS YET", QUESTION, "A comparison needs two methods with results.")
    if len(methods_of(runs)) >= 2:
        st.write(f"{plural(len(methods_of(chosen)), 'method')} chosen. Choose another one here:")
        selection.chooser(runs, chosen, queries.experiments())
        return
    waiting = [run for run in queries.runs(statuses=["queued", "running"]) if run.round < 0]
    if waiting:
        st.write(f"{plural(len(waiting), 'run')} on the way, to appear here after the first round. See [Live](/live).")
    st.markdown(
        "Queue an experiment with several methods in [Set up](/setup), or load examples in the [Library](/library)."
    )


def controls(runs: list[RunRecord], chosen: list[RunRecord]) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", key="compare_controls"):
        address.switch("Model", MODELS, "model", "personalized")
        address.switch("Tail", TAILS, "tail", "5")
        address.switch("Round", ROUNDS, "when", "last")
        if not is_presenting():
            address.switch("Sorted by", SORTS, "sort", "mean")
            with st.popover("Choose runs", width="content"):
                selection.chooser(runs, chosen, queries.experiments())


def cautions(view: View) -> None:
    """What makes these numbers incomparable, and what to know of them."""
    for sentence in conflicts(view.methods):
        st.warning(sentence)
    said = notes(view.methods)
    with_model = set(view.clients()["method"])
    without = [method.name for method in view.methods if method.name not in with_model]
    if without and with_model:
        said.append(f"{names(without)} {'has' if len(without) == 1 else 'have'} no {view.model} model.")
    if said:
        st.caption("  \n".join(said))


def distribution(view: View, clients: pd.DataFrame) -> None:
    by = cast(dumbbell.SortKey, address.value("sort", SORTS, "mean"))
    left, right = st.columns(2, gap="large")
    with left:
        rows = dumbbell.data(clients, view.share, by, view.clients(view.other_model))
        page.chart(
            dumbbell.figure(rows, view.share, view.other_model), rows, key="dumbbell", name="low-mean-top",
            title=f"Lowest {view.tail} % ◂ mean ▸ top {view.tail} %",
            alt=f"{rows.iloc[0]['method']} comes first by {SORTS[by]}, with a mean of {percent(rows.iloc[0]['mean'])}",
        )  # fmt: skip
        ring = f"; ring: mean of the {view.other_model} model" if rows["other"].notna().any() else ""
        st.caption(f"{_tail_words(rows, view).capitalize()}; {view.rule}; whisker: ± over seeds{ring}.")
    with right:
        steps = ecdf.data(clients)
        page.chart(
            ecdf.figure(steps, view.share), steps, key="ecdf", name="ecdf",
            title="Share of clients at or below an accuracy",
            alt=f"Distribution of the accuracy of {plural(len(steps), 'client')} under {names(steps['method'], 12)}",
        )  # fmt: skip
        st.caption(f"{view.rule.capitalize()}; further right is better. Every client of every seed is one step.")


@st.fragment
def over_time(view: View, clients: pd.DataFrame) -> None:
    st.header("How fast, and at what price?", anchor=False)
    series = view.series()
    left, right = st.columns(2, gap="large")
    with left:
        x = cast(curves_over_seeds.Axis, address.switch("Across", AXES, "x", "round"))
        lines = curves_over_seeds.data(series, view.model, x)
        page.chart(
            curves_over_seeds.figure(lines, x), lines, key="curves", name=f"accuracy-over-{x}",
            title="Mean accuracy, and the lowest 5 % dashed",
            alt=f"{view.model} accuracy over {curves_over_seeds.AXIS_TITLES[x]} for {names(lines['method'], 12)}",
        )  # fmt: skip
        st.caption(f"{view.model.capitalize()} model, mean over clients and seeds. {_band_words(lines)}")
    with right:
        price = cast(curves_over_seeds.Axis, address.switch("Price", COSTS, "price", "megabytes"))
        points = cost.data(_with_costs(view, clients, series), price)
        page.chart(
            cost.figure(points, price), points, key="cost", name=f"accuracy-against-{price}",
            title="Accuracy against what it costs", alt=cost.finding(points, price),
        )  # fmt: skip
        st.caption(f"{cost.finding(points, price)} {view.rule.capitalize()}, everything spent until then.")


@st.fragment
def who_loses(view: View, clients: pd.DataFrame) -> None:
    ranked = per_run(clients, view.share).groupby("method")["mean"].mean().sort_values(ascending=False)
    if len(ranked) < 2:
        return
    st.header("Which clients lose?", anchor=False)
    titles = {name: name for name in ranked.index}
    with st.container(horizontal=True, key="pair_controls"):
        a = address.pick("Method A", titles, "a", ranked.index[0])
        others = {name: name for name in titles if name != a}
        b = address.pick("against method B", others, "b", next(iter(others)))
    by_name = {method.name: method for method in view.methods}
    pairs = differences.data(clients, a, b)
    if pairs.empty or not same_clients(by_name[a], by_name[b]):
        st.info(f"{a} and {b} have no clients in common: their data, partitions or seeds differ.")
        return
    sentence = paired.verdict(pairs).sentence(a, b, pairs["seed"].nunique())
    st.markdown(f"**{sentence}**")
    left, right = st.columns(2, gap="large")
    with left:
        page.chart(
            paired.figure(pairs, a, b, clients), pairs, key="paired", name="paired", alt=sentence,
            title=f"Each client under both; above the line {a} is better",
        )  # fmt: skip
    with right:
        page.chart(
            differences.figure(pairs, a, b, clients), pairs, key="differences", name="differences", alt=sentence,
            title="The same differences, sorted",
        )  # fmt: skip


@st.fragment
def clustered(view: View, clients: pd.DataFrame) -> None:
    labelled = {
        str(run.id): f"{method.name}, seed {run.seed}"
        for method in _best_first(view.methods, clients) for run in method.runs if len(queries.clusters(run.id)[0])
    }  # fmt: skip
    if not labelled:
        return
    st.header("Do the clusters settle?", anchor=False)
    run_id = int(address.pick("Clusters of", labelled, "clusters", next(iter(labelled))))
    contexts = (queries.partition(run_id) or {}).get("contexts")
    cells = cluster_raster.data(*queries.clusters(run_id), contexts)
    finding = cluster_raster.finding(cells)
    page.chart(
        cluster_raster.figure(cells), cells, key="raster", name="clusters", alt=finding,
        title="Cluster of each client, round by round",
    )  # fmt: skip
    st.caption(finding)


@st.fragment
def swept(view: View, clients: pd.DataFrame) -> None:
    runs = per_run(clients, view.share)
    given = {run.id: sweep.options(run.config) for method in view.methods for run in method.runs}
    runs["options"] = runs["run"].map(given)
    found = {name: name.removeprefix("training.") for name in sweep.parameters(runs)}
    if not found:
        return
    st.header("How much of it?", anchor=False)
    parameter = address.pick("Parameter", found, "parameter", next(iter(found)))
    rows = sweep.data(runs, parameter)
    symbol, meaning = _parameter(rows, parameter)
    finding = sweep.finding(rows, symbol)
    page.chart(
        sweep.figure(rows, symbol), rows, key="sweep", name=f"sweep-{parameter}", alt=finding,
        title=f"Accuracy against {symbol}; ★ best, dashed: lowest {view.tail} %",
    )  # fmt: skip
    st.caption(f"{finding} {meaning} {view.rule.capitalize()}, whisker: ± over seeds.")


@st.fragment
def numbers(view: View, clients: pd.DataFrame) -> None:
    st.header("What exactly are the numbers?", anchor=False)
    series = view.series()
    parts = [
        _with_costs(view, view.clients(model, when), series, model, when).assign(model=model, when=when)
        for model in get_args(queries.Model) for when in get_args(queries.When)
    ]  # fmt: skip
    table = tables.data(pd.concat(parts, ignore_index=True))
    here = table[(table["model"] == view.model) & (table["when"] == view.when)]
    scope = address.switch("Rows", {"view": "As chosen above", "all": "Both models, last and best"}, "rows", "view")
    shown = tables.for_screen(here if scope == "view" else table, clients)
    st.dataframe(
        shown, hide_index=True, key="numbers", column_config=_columns(list(shown.columns), view.tail),
        alt=f"Accuracy and cost of {names(here['method'], 12)}",
    )  # fmt: skip
    st.caption(
        f"Percent, ± sample deviation over seeds; {_tail_words(here, view)}; std and CV over clients (population)."
    )
    latex = tables.to_latex(here, view.tail, f"{kicker(view.methods[0].runs[0])}; {view.rule}.")
    with st.container(horizontal=True):
        st.download_button("CSV, all rows", tables.to_csv(table), "comparison.csv", "text/csv", on_click="ignore")
        st.download_button("LaTeX", latex, "comparison.tex", "text/x-tex", on_click="ignore")


def _with_costs(
    view: View,
    clients: pd.DataFrame,
    series: pd.DataFrame,
    model: queries.Model | None = None,
    when: queries.When | None = None,
) -> pd.DataFrame:
    """A row a run with its summaries, and what it spent up to the round they are of."""
    best = (when or view.when) == "best"
    runs = {run.id: run for method in view.methods for run in method.runs}
    at_best = {i: queries.best_round(run, model or view.model) if best else None for i, run in runs.items()}
    spent = cost.spent(series, {i: run.round if (at := at_best[i]) is None else at for i, run in runs.items()})
    return per_run(clients, view.share).merge(spent, on="run", how="left")


def _best_first(methods: Sequence[Method], clients: pd.DataFrame) -> list[Method]:
    means = clients.groupby("method")["accuracy"].mean()
    return sorted(methods, key=lambda method: -means.get(method.name, -1.0))


def _tail_words(rows: pd.DataFrame, view: View) -> str:
    counts = {f"{r.tail} of {r.clients}" for r in rows.itertuples()}
    return f"lowest {view.tail} % = {' or '.join(sorted(counts))} clients"


def _band_words(lines: pd.DataFrame) -> str:
    if lines["method"].nunique() <= curves_over_seeds.MOST_BANDS and lines["mean_pm"].notna().any():
        return "The band is ± one deviation over seeds."
    return f"Bands over seeds appear for {curves_over_seeds.MOST_BANDS} methods or fewer."


def _parameter(rows: pd.DataFrame, parameter: str) -> tuple[str, str]:
    """Its symbol, and what the method says of it."""
    for algorithm in rows.loc[rows["value"].notna(), "algorithm"].unique():
        if algorithm in ALGORITHMS:
            for p in ALGORITHMS.get(algorithm).parameters:
                if p.name == parameter:
                    return p.symbol, p.description
    return parameter.removeprefix("training."), ""


def _columns(names_: list[str], tail: int) -> dict[str, Any]:
    config = st.column_config
    titles, printed = tables.column_titles(tail), tables.formats(names_)
    columns: dict[str, Any] = {
        name: config.NumberColumn(titles[name], format=printed[name])
        if name in printed
        else config.TextColumn(titles[name])
        for name in names_
    }
    return columns | {"bars": config.BarChartColumn(titles["bars"], y_min=0, y_max=100)}


render()
