"""Compares the methods of an export in a Markdown table: ``python -m benchmarks.method_table FILE.json``.

Means over seeds at the last round, in percent, with the sample deviation of the mean accuracy; for the whole run,
megabytes up and down, millions of gradient evaluations and seconds of training. cv is the deviation over clients
divided by their mean, times 100.
"""

import argparse
from pathlib import Path

import pandas as pd

from engine.core.vocabulary import megabytes
from engine.export.reading import read_export
from engine.export.tables import summary_table

HEAD = ("method", "mean", "lowest 5 %", "top 5 %", "std", "cv", "global", "MB", "10^6 gradients", "seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export", type=Path, help="written by `python -m engine run --export`")
    for experiment in read_export(parser.parse_args().export):
        table = summary_table(result for _, result in experiment.runs)
        seeds = int(table.seeds.max())
        print(f"\n{table.experiment.iloc[0]}: {len(table)} methods, {seeds} seed{'s' if seeds > 1 else ''}\n")
        print("\n".join(markdown(table)))


def markdown(table: pd.DataFrame) -> list[str]:
    """``table``: from ``summary_table``."""
    head = "| " + " | ".join(HEAD) + " |"
    return [head, "|---" * len(HEAD) + "|", *(f"| {' | '.join(_cells(row))} |" for row in table.to_dict("records"))]


def _cells(row: dict[str, float]) -> list[str]:
    percent = [f"{100 * row[f'personalized.{name}']:.2f}" for name in ("mean", "lowest5", "top5", "std", "cv")]
    spread = row["personalized.mean.std"]
    if spread == spread:  # one seed has none
        percent[0] += f" ± {100 * spread:.2f}"
    shared = row.get("global.mean", float("nan"))
    return [
        str(row["label"]),
        *percent,
        "–" if shared != shared else f"{100 * shared:.2f}",
        f"{megabytes(row):,.0f}",
        f"{row['gradient_evaluations'] / 1e6:.2f}",
        f"{row['seconds']:.1f}",
    ]


if __name__ == "__main__":
    main()
