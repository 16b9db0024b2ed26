"""Library: every run there is; those one chooses can be compared, run again, put away or taken along."""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from app import address, exchange, launch, links, queries, run_table, wording
from app.components import page
from engine.errors import InvalidConfig
from engine.presets import load_preset, preset_names
from storage import RunRecord, StorageError

CHOSEN = "library_runs"
DEMO = "digits-first"
MAX_MEGABYTES = 200


def render() -> None:
    page.require_store()
    tell()
    runs = queries.runs(include_archived=True, newest_first=True)
    experiments = {run.experiment_id for run in runs}
    said = f"{wording.plural(len(runs), 'run')} · {wording.plural(len(experiments), 'experiment')}"
    page.header(said if runs else "No runs yet", "What has been tried so far?")
    if runs:
        listing(runs)
        actions({run.id: run for run in runs})
        sources()
    else:
        first_start()


def first_start() -> None:
    """Nothing to list: the ways to something."""
    left, right = st.columns(2, gap="large")
    with left:
        st.header("See it work", anchor=False)
        st.write("Five methods learn handwritten digits on twenty clients while you watch, in about a minute.")
        if DEMO in preset_names():
            st.button("Start the 60-second demo", type="primary", key="demo", on_click=attempt, args=(start_demo,))
        if st.session_state.pop("library_started", None):
            launch.open_page("live", "See it train")
    with right:
        st.header("Bring your own", anchor=False)
        st.html(
            f'<p><a href="{links.link("setup")}" target="_self">Set up an experiment</a>, or import exported runs.</p>'
        )
        sources()


def listing(runs: Sequence[RunRecord]) -> None:
    """Filters, and the table of what passes them. Rows that are chosen join the chosen runs."""
    passing = filters(runs)
    with st.container(horizontal=True, vertical_alignment="bottom", key="library_order", width=560):
        group = address.pick("Rows are", run_table.GROUPS, "group", "none")
        sort = address.pick("Order", run_table.SORTS, "sort", "newest")
    table = run_table.ordered(run_table.data(passing), sort)
    if table.empty:
        st.caption("No run passes these filters.")
        return
    if group != "none":
        table = run_table.grouped(table, group)
    key = f"library_table.{hash((group, sort, tuple(table.iloc[:, 0].astype(str))))}"  # other rows, another selection
    st.dataframe(
        table, hide_index=True, key=key, placeholder=wording.MISSING, height=min(38 + 35 * len(table), 520),
        on_select=lambda: take_rows(key, table), selection_mode="multi-row", column_config=columns(),
        column_order=[c for c in table if c != "runs"], alt=f"{len(passing)} runs",
    )  # fmt: skip


def filters(runs: Sequence[RunRecord]) -> list[RunRecord]:
    with st.container(horizontal=True, vertical_alignment="bottom", key="library_filters"):
        text = st.text_input("Find", key="q", bind="query-params", placeholder="ditto lam=1 digits", type="search")
        statuses = choice("Status", "status", sorted({run.status for run in runs}))
        algorithms = choice("Method", "method", sorted({run.algorithm for run in runs}))
        datasets = choice("Data set", "dataset", sorted({run_table.dataset_of(run) for run in runs}))
        with_archived = st.toggle("Archived too", key="archived", bind="query-params")
    asked = run_table.Filter(text or "", statuses, algorithms, datasets)
    return [run for run in runs if (with_archived or not run.archived) and asked.passes(run)]


def choice(label: str, name: str, options: list[str]) -> list[str]:
    """Several of many; nothing chosen lets everything through. Lives in the address as ``?status=done,failed``."""
    key = f"library_{name}"
    said = [value for value in st.query_params.get(name, "").split(",") if value in options]
    st.session_state[key] = said

    def write() -> None:
        set_address(name, st.session_state[key])

    st.multiselect(label, options, key=key, placeholder="any", on_change=write)
    return said


def take_rows(key: str, table: pd.DataFrame) -> None:
    """The chosen rows of the table are the chosen runs; those that the table doesn't show stay chosen."""
    column = "runs" if "runs" in table else "run"
    ids = [run_id for value in table[column] for run_id in (value if column == "runs" else [value])]
    rows = table[column].iloc[st.session_state[key]["selection"]["rows"]]
    picked = [run_id for value in rows for run_id in (value if column == "runs" else [value])]
    hidden = [run_id for run_id in address.ids("runs") if run_id not in ids]
    set_address("runs", [*hidden, *picked])


def actions(runs: dict[int, RunRecord]) -> None:
    """What can be done with the chosen runs. They stand in the address, so that a choice is a link."""
    st.session_state[CHOSEN] = [run_id for run_id in address.ids("runs") if run_id in runs]
    st.multiselect(
        "Chosen runs", list(runs), key=CHOSEN, on_change=lambda: set_address("runs", st.session_state[CHOSEN]),
        format_func=lambda run_id: f"{run_id} · {runs[run_id].label}, seed {runs[run_id].seed}",
        placeholder="tick rows of the table, or choose here",
    )  # fmt: skip
    chosen = [runs[run_id] for run_id in st.session_state[CHOSEN]]
    if not chosen:
        return
    ids = [run.id for run in chosen]
    with st.container(horizontal=True, vertical_alignment="center", key="library_actions"):
        look_at(chosen)
        st.button("Run again", key="rerun", on_click=attempt, args=(rerun, ids))
        archived = all(run.archived for run in chosen)
        st.button("Back from the archive" if archived else "Archive", key="archive", on_click=attempt,
                  args=(archive, ids, not archived))  # fmt: skip
        name = exchange.file_name(chosen)
        st.download_button("Export JSON", lambda: exchange.json_of(ids), f"{name}.json", "application/json",
                           key="json", on_click="ignore")  # fmt: skip
        st.download_button("Export CSV", lambda: exchange.csv_of(ids), f"{name}.csv", "text/csv", key="csv",
                           on_click="ignore")  # fmt: skip
        delete_panel(ids)


def look_at(chosen: Sequence[RunRecord]) -> None:
    """Turn to a page that shows them, or to Set up with their experiment."""
    ids = ",".join(str(run.id) for run in chosen)
    if st.button("Compare", key="compare", type="primary"):
        launch.open_page("compare", "Compare them", runs=ids)
    if len(chosen) == 1 and st.button("Look inside", key="inside"):
        launch.open_page("run", "Look inside", id=chosen[0].id)
    if st.button("Watch", key="watch"):
        launch.open_page("live", "Watch them", runs=ids)
    of_one = {run.experiment_id for run in chosen}
    experiment = queries.experiment(of_one.pop()) if len(of_one) == 1 else None
    if experiment and st.button("Open in Set up", key="open_setup"):
        launch.open_page("setup", "Set up", config=links.pack_config(experiment.config))


def delete_panel(ids: Sequence[int]) -> None:
    """Asks before it deletes: there is no way back."""
    files = sum(queries.store().artifacts.total_bytes(run_id) for run_id in ids)
    with st.popover("Delete", key="delete"):
        st.write(f"Delete {wording.plural(len(ids), 'run')} with all rounds, and {wording.size_bytes(files)} of models "
                 "and checkpoints? This cannot be undone.")  # fmt: skip
        st.button(f"Delete {wording.plural(len(ids), 'run')}", key="delete_now", type="primary", on_click=attempt,
                  args=(delete, ids))  # fmt: skip


def sources() -> None:
    """Runs from elsewhere: exported files, and the examples that ship with the product."""
    place = st.container(horizontal=True, key="library_sources")
    with place.popover("Import runs", key="import"):
        file = st.file_uploader("A JSON file that was exported here or by the command line", "json", key="import_file",
                                max_upload_size=MAX_MEGABYTES)  # fmt: skip
        if file is not None:
            st.button("Import", key="import_now", type="primary", on_click=attempt,
                      args=(import_upload, file.name, file.getvalue()))  # fmt: skip
    if exchange.example_files():
        place.button("Load the examples", key="examples", on_click=attempt, args=(load_examples,))


def columns() -> dict[str, Any]:
    accuracy: dict[str, Any] = {"format": "%.2f", "help": "Percent, personalized models, last round"}
    return {
        "run": st.column_config.NumberColumn("Run", width="small"),
        "progress": st.column_config.ProgressColumn("Rounds", format="%.0f %%", min_value=0, max_value=100),
        "mean": st.column_config.NumberColumn("Mean, %", **accuracy),
        "std": st.column_config.NumberColumn("± over runs", format="%.2f"),
        "lowest5": st.column_config.NumberColumn("Lowest 5 %, %", **accuracy),
        "best mean": st.column_config.NumberColumn("Best mean, %", format="%.2f", help="In the best round"),
        "number": st.column_config.NumberColumn("Runs", width="small"),
        "queued": st.column_config.DatetimeColumn("Queued", format="D MMM YYYY, HH:mm"),
        **{
            name: name.capitalize()
            for name in ("experiment", "method", "methods", "seed", "seeds", "status", "split", "done")
        },
        "dataset": "Data set",
    }


def attempt(what: Callable[..., str], *arguments: Any) -> None:
    """Do it, and say at the top of the page what was done, or why it cannot be."""
    try:
        st.session_state["library_said"] = ("success", what(*arguments))
    except InvalidConfig as error:
        st.session_state["library_said"] = ("error", wording.lines(error.problems))
    except StorageError as error:
        st.session_state["library_said"] = ("error", wording.plain(str(error)))


def tell() -> None:
    kind, message = st.session_state.pop("library_said", (None, ""))
    if kind:
        (st.success if kind == "success" else st.error)(message)


def rerun(ids: Sequence[int]) -> str:
    new = queries.store().queue.rerun(ids)
    set_address("runs", [run.id for run in new])
    return f"Queued {wording.plural(len(new), 'run')} again, and chose them."


def archive(ids: Sequence[int], archived: bool) -> str:
    queries.store().queue.archive(ids, archived)
    return f"{wording.plural(len(ids), 'run')} {'put into' if archived else 'taken out of'} the archive."


def delete(ids: Sequence[int]) -> str:
    queries.store().queue.delete(ids)
    set_address("runs", [])
    return f"Deleted {wording.plural(len(ids), 'run')}."


def import_upload(name: str, data: bytes) -> str:
    return imported(exchange.import_bytes(name, data))


def load_examples() -> str:
    return imported(exchange.load_examples())


def imported(experiments: Sequence[Any]) -> str:
    if not experiments:
        return "All of it is there already."
    return (
        "Imported "
        + wording.names(f"“{wording.plain(e.name)}” ({wording.plural(e.num_runs, 'run')})" for e in experiments)
        + "."
    )


def start_demo() -> str:
    launch.queue_preset(load_preset(DEMO), "quick")
    st.session_state["library_started"] = True
    return "The demo is queued."


def set_address(name: str, values: Sequence[object]) -> None:
    if values:
        st.query_params[name] = ",".join(map(str, values))
    else:
        st.query_params.pop(name, None)


render()
