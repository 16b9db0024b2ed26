"""The table of the final runs, on the screen, in files and in print."""

import numpy as np
import pandas as pd
import streamlit as st

from app.components import page, terms
from app.data.column_heads import Head, Heads, percent
from app.data.latex import booktabs, escape, number
from app.data.table_files import fixed
from app.statistics.intervals import MIN_BLOCKS
from app.study import numbers
from app.study.study import Study
from app.wording import MISSING, decimals, names, plural, signed_points

COLUMNS = (
    "method",
    "default",
    "tuned",
    "difference",
    "low",
    "high",
    "verdict",
    "lowest",
    "floor",
    "named",
    "hurt",
    "helped",
    "hurt_global",
    "helped_global",
    "gradients",
    "megabytes",
    "tuning_gradients",
)


def heads(reference: str | None) -> Heads:
    against = reference or "the reference"
    return {
        "default": percent("Defaults"),
        "tuned": percent("Tuned"),
        "gain": Head("Tuning gain, points", 100.0, 2),
        "difference": Head(f"Minus {against}, points", 100.0, 2),
        "low": Head("from", 100.0, 2),
        "high": Head("to", 100.0, 2),
        "verdict": Head("Verdict"),
        "p": Head("Wilcoxon p over splits", is_p=True),
        "holm": Head("after Holm", is_p=True),
        "default_lowest": percent("Lowest 10 %, defaults"),
        "tuned_lowest": percent("Lowest 10 %, tuned"),
        "lowest": percent("Lowest 10 %"),
        "lowest_low": percent("Lowest 10 % from"),
        "lowest_high": percent("Lowest 10 % to"),
        "floor": percent("Chance floor"),
        "floor_low": percent("Chance floor from"),
        "floor_high": percent("Chance floor to"),
        "tail": Head("Lowest 10 % against chance"),
        "named": percent(f"Lowest 10 % of {against} on validation"),
        "hurt": Head("Hurt", decimals=0),
        "helped": Head("Helped", decimals=0),
        "hurt_p": Head("Sign test p", is_p=True),
        "hurt_low": percent("Share hurt from"),
        "hurt_high": percent("Share hurt to"),
        "hurt_global": Head("Hurt against FedAvg's global model", decimals=0),
        "helped_global": Head("Helped against FedAvg's global model", decimals=0),
        "clients": Head("Clients", decimals=0),
        "gradients": Head("Gradients of a run", decimals=0),
        "megabytes": Head("MB of a run", decimals=2),
        "tuning_gradients": Head("Gradients of the tuning", decimals=0),
        "samples": Head("Test samples"),
        "tail_samples": Head("Test samples of the lowest"),
    }


def panel(study: Study, table: pd.DataFrame) -> None:
    reference, formats = study.reference, heads(study.reference)
    page.section(heading(study.final_runs, reference))
    shown = table[[name for name in COLUMNS if table[name].notna().any()]]
    titles = {name: formats[name].title if name in formats else "Method" for name in shown}
    columns = {
        titles[name]: st.column_config.TextColumn(pinned=name == "method")
        if name in ("method", "verdict")
        else st.column_config.NumberColumn(format=f"%{formats[name].spec}")
        for name in shown
    }
    scaled = {
        titles[name]: own * formats[name].factor if name in formats and pd.api.types.is_numeric_dtype(own) else own
        for name, own in shown.items()
    }
    st.dataframe(
        pd.DataFrame(scaled),
        hide_index=True,
        height=page.table_height(len(table)),
        key="finals",
        column_config=columns,
        placeholder=MISSING,
        alt=f"Final runs of {names(table['method'], 12)}",
    )
    caption = about(study)
    terms.caption(caption)
    downloads(table, reference, caption)


def heading(runs: pd.DataFrame, reference: str | None) -> str:
    """``With defaults, 9 of 10 methods are clearly below LocalTrain; tuned, 4``, compared on the splits that both have.

    With too few splits for a verdict it counts lower means.
    """
    if reference is None:
        return "Final runs"
    settings = ("default", numbers.TUNED)
    is_clear = min(len(numbers.blocks(runs, "mean", name)) for name in settings) >= MIN_BLOCKS
    counts = [numbers.below(runs, reference, name, is_clear=is_clear) for name in settings]
    (before, of), (after, of_tuned) = counts
    if not of or not of_tuned:
        return "Final runs"
    some, others = plural(of, "method is", "methods are"), "" if of == of_tuned else f" of {of_tuned}"
    where = f"clearly below {reference}" if is_clear else f"below {reference} on average"
    return f"With defaults, {before} of {some} {where}; tuned, {after}{others}"


def about(study: Study) -> str:
    reference = study.reference or "the reference"
    of_one = "over seeds and clients of this split only, too short with few seeds"
    over = "over splits (seeds averaged in each)" if numbers.num_splits(study) > 1 else of_one
    return (
        f"Test accuracy in percent; 95 % interval of the difference to the tuned {reference} {over}. Hurt, helped: "
        f"clients with a lower or higher accuracy than under {reference}. Chance floor: the lowest 10 % if all clients "
        "had the same true accuracy."
    )


def downloads(table: pd.DataFrame, reference: str | None, caption: str) -> None:
    """CSV with every number; LaTeX and Markdown as in a paper."""
    with st.container(horizontal=True, gap="small", key="finals_downloads"):
        page.files(
            table.drop(columns=["algorithm"]), key="finals", name="study", caption=caption, heads=heads(reference)
        )
        st.download_button(
            "LaTeX, main columns",
            lambda: to_latex(table, reference, caption),
            "study-table.tex",
            "text/x-tex",
            key="finals_paper",
            type="tertiary",
            on_click="ignore",
            help="Accuracy, difference with its interval, lowest clients, hurt and helped as a booktabs table",
        )


def to_latex(table: pd.DataFrame, reference: str | None, caption: str) -> str:
    """Method, defaults, tuned, difference with its interval, lowest, floor, hurt and helped, MB."""
    against = escape(reference or "reference")
    titles = ["Method", "Defaults", "Tuned", rf"$-$ {against}", r"Lowest 10 \%", "Floor", "Hurt", "Helped", "MB"]
    rows = [
        [
            escape(row["method"]),
            _percent(row["default"], row["samples"]),
            _percent(row["tuned"], row["samples"]),
            _difference(row),
            _percent(row["lowest"], row["tail_samples"]),
            _percent(row["floor"], None),
            number(fixed(row["hurt"], 0)),
            number(fixed(row["helped"], 0)),
            number(fixed(row["megabytes"], 2)),
        ]
        for row in table.to_dict("records")
    ]
    return booktabs(titles, rows, "l" + "r" * 8, escape(caption))


def _difference(row: dict) -> str:
    if not np.isfinite(row["difference"]):
        return "--"
    text = signed_points(row["difference"], row["samples"])
    if not np.isfinite(row["low"]):
        return number(text.replace("−", "-"))
    digits = decimals(row["samples"], 1)
    return f"{number(text.replace('−', '-'))} $[{100 * row['low']:.{digits}f}, {100 * row['high']:.{digits}f}]$"


def _percent(value: float, samples: float | None) -> str:
    return number(fixed(100 * value, decimals(samples, 1)))
