"""Prints a finished study as Markdown: the finding, the methods, their ranks, and what it took.

    DATABASE_URL=sqlite:///study.db .venv/bin/python -m benchmarks.study_table 1

Accuracies are means over splits and seeds on test data, in percent; intervals are 95 % t intervals over splits.
"""

import argparse
from datetime import timedelta

import pandas as pd

from app.data import queries
from app.study import finding, numbers, ranks
from app.study.choosing import study_of
from app.study.study import SHARE, Study

HEAD = (
    "method",
    "defaults",
    "tuned",
    "gain",
    "minus {reference}",
    "95 %",
    f"lowest {100 * SHARE:g} %",
    "hurt",
    "helped",
    "rank",
    "MB",
    "10^6 gradients",
)


def markdown(table: pd.DataFrame, rank: pd.Series, reference: str | None) -> list[str]:
    """``table``: from ``numbers.table``; ``rank``: the mean rank of each method."""
    head = [title.format(reference=reference or "reference") for title in HEAD]
    rows = [_cells(row, rank.get(row["method"])) for row in table.to_dict("records")]
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def time_taken(study: Study) -> tuple[timedelta, timedelta]:
    """From the first start to the last end, and the sum over all runs."""
    spans = [(run.started_at, run.finished_at) for run in study.runs if run.started_at and run.finished_at]
    starts, ends = zip(*spans, strict=True)
    return max(ends) - min(starts), sum((end - start for start, end in spans), timedelta())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", type=int)
    study = study_of(queries.store().experiments.get(parser.parse_args().experiment))
    found, ranked = finding.of(study), ranks.diagram(study)
    print(found.title, found.procedure, *found.sentences, sep="\n\n", end="\n\n")
    rank = pd.Series(dtype=float) if ranked is None else ranked.table.set_index("method")["rank"]
    print("\n".join(markdown(numbers.table(study), rank, study.reference)))
    if ranked is not None:
        print(f"\n{ranked.caption}")
    pairs = ranks.pairs(study, ranks.REFERENCE)
    print(f"\n{ranks.about(study, pairs, ranks.REFERENCE)}\n\n{pairs.round(4).to_string(index=False)}")
    whole, computed = time_taken(study)
    print(f"\n{len(study.runs)} runs in {whole}; {computed} if computed one after the other")


def _cells(row: dict[str, float], rank: float | None) -> list[str]:
    def percent(value: float, sign: str = "") -> str:
        return "–" if value != value else f"{100 * value:{sign}.2f}"

    def clients(name: str) -> str:
        return "–" if row[name] != row[name] else f"{row[name]:.0f}"

    interval = "–" if row["low"] != row["low"] else f"{percent(row['low'], '+')} to {percent(row['high'], '+')}"
    return [
        str(row["method"]),
        percent(row["default"]),
        percent(row["tuned"]),
        percent(row["gain"], "+"),
        percent(row["difference"], "+"),
        interval,
        percent(row["lowest"]),
        clients("hurt"),
        clients("helped"),
        "–" if rank is None else f"{rank:.2f}",
        f"{row['megabytes']:,.0f}",
        f"{row['gradients'] / 1e6:.2f}",
    ]


if __name__ == "__main__":
    main()
