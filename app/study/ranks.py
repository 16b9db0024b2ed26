"""Methods over splits: the critical difference diagram, and verdicts on pairs."""

import pandas as pd
import streamlit as st

from app.charts import critical_differences, tuned
from app.components import page, terms
from app.components.shown import Shown, with_finding
from app.data.column_heads import Head
from app.state import url_state
from app.state.choice import Choice
from app.statistics.bayesian import MIN_BLOCKS, ROPE, signed_rank_posterior
from app.statistics.critical_difference import ALPHA
from app.statistics.pairs import all_pairs, to_reference
from app.statistics.verdicts import difference_in_words, too_few_blocks
from app.study.numbers import TUNED, blocks, known_ends, num_splits
from app.study.study import Study
from app.wording import plural

HEADS = {
    "a": Head("Method"),
    "b": Head("minus"),
    "difference": Head("Difference, points", 100.0, 2),
    "low": Head("from", 100.0, 2),
    "high": Head("to", 100.0, 2),
    "p": Head("Wilcoxon p", is_p=True),
    "holm": Head("after Holm", is_p=True),
    "t_holm": Head("t-test p, after Holm", is_p=True),
    "effect": Head("Effect r", decimals=2),
    "verdict": Head("Verdict"),
}
REFERENCE, ALL = "reference", "all"
ROPES = Choice("Equal within", {"0.25": "0.25 points", "0.5": "0.5 points", "1": "1 point"}, "rope", f"{100 * ROPE:g}")


def diagram(study: Study) -> Shown | None:
    """None for fewer than three methods or two splits."""
    runs = study.final_runs
    ranked = critical_differences.data(runs[runs["setting"] == TUNED])
    if ranked is None:
        return None
    return with_finding(
        critical_differences.figure(ranked),
        ranked.rows,
        critical_differences.finding(ranked),
        key="critical_differences",
        name="critical-differences",
        title="Critical difference diagram of the tuned methods",
        also=critical_differences.note(ranked),
        heads={"rank": Head("Mean rank", decimals=3)},
    )


def pairs(study: Study, family: str) -> pd.DataFrame:
    """[a, b, difference, low, high, p, holm, t_holm, effect, verdict], corrected for all pairs of the family."""
    runs = study.final_runs
    table = blocks(runs, "mean")
    methods, values = list(table.columns), table.to_numpy(float)
    samples = float(tuned.test_samples(runs)["samples"].min())
    if family == REFERENCE and study.reference in methods:
        found = to_reference(values, methods.index(study.reference))
    else:
        found = all_pairs(values)
    rows = [
        {
            "a": methods[pair.a],
            "b": methods[pair.b],
            "difference": pair.interval.mean,
            "low": low,
            "high": high,
            "p": pair.p,
            "holm": pair.holm,
            "t_holm": pair.t_holm,
            "effect": pair.effect,
            "verdict": difference_in_words(pair, samples),
        }
        for pair in found
        for low, high in [known_ends(pair.interval)]
    ]
    return pd.DataFrame(rows, columns=list(HEADS)).sort_values("difference", ascending=False, kind="stable")


def posterior(study: Study, rope: float) -> pd.DataFrame:
    """[Method, better, equal, worse]: probabilities in percent, against the reference; no rows for few splits."""
    table, reference = blocks(study.final_runs, "mean"), study.reference
    rows = []
    for method in table.columns:
        if reference not in table or method == reference:
            continue
        gaps = (table[method] - table[reference]).dropna().to_numpy(float)
        if len(gaps) >= MIN_BLOCKS:
            found = signed_rank_posterior(gaps, rope)
            shown = {name.capitalize(): f"{100 * getattr(found, name):.1f} %" for name in ("better", "equal", "worse")}
            rows.append({"Method": method, **shown})
    return pd.DataFrame(rows)


def posterior_within(study: Study, rope: str) -> pd.DataFrame:
    """``posterior`` of this study; ``rope`` is the name of one of ``ROPES``."""
    return study.keep(f"posterior {rope}", lambda: posterior(study, float(rope) / 100))


def family_control(study: Study) -> Choice:
    titles = {REFERENCE: f"With {study.reference}"} if study.reference else {}
    return Choice("Comparisons", titles | {ALL: "All pairs"}, "family", REFERENCE if titles else ALL)


def about(study: Study, rows: pd.DataFrame, family: str) -> str:
    """The family, and whether any pair can be significant with so many splits."""
    count = plural(len(rows), "comparison")
    what = f"{count} with {study.reference}" if family == REFERENCE else f"all {plural(len(rows), 'pair')}"
    few = too_few_blocks(num_splits(study), len(study.entries), len(rows))
    significant = int((rows["holm"] <= ALPHA).sum())
    result = few or f"{significant} of {count} significant at 5 % after Holm's correction."
    over = f"over {plural(num_splits(study), 'split')} of this data set"
    return (
        f"{result} Wilcoxon's signed-rank test {over}; Holm over {what}. Intervals are 95 % for each pair; verdicts "
        "use the t-tests."
    )


@url_state.fragment
def panel(study: Study) -> None:
    if len(study.entries) < 2 or study.final_runs.empty:
        return
    page.section("Which methods differ?")
    if (found := diagram(study)) is not None:
        page.show(found)
    family = family_control(study).switch()
    rows = pairs(study, family)
    formats = {
        head.title: st.column_config.NumberColumn(format=f"%{head.spec}")
        for head in HEADS.values()
        if head.spec is not None
    }
    scaled = pd.DataFrame(
        {head.title: rows[name] * head.factor if head.factor != 1 else rows[name] for name, head in HEADS.items()}
    )
    st.dataframe(
        scaled,
        hide_index=True,
        height=page.table_height(len(scaled)),
        key="pairs",
        column_config=formats,
        alt="Differences of pairs of methods",
    )
    caption = about(study, rows, family)
    terms.caption(caption, "pairs")
    page.files(rows, key="pairs", name="pairs", caption=caption, heads=HEADS)
    if study.reference is not None and num_splits(study) >= MIN_BLOCKS:
        probabilities(study)


def probabilities(study: Study) -> None:
    """How probable it is that each method is better than the reference, equal in practice, or worse."""
    rope = ROPES.switch()
    rows = posterior_within(study, rope)
    st.dataframe(
        rows,
        hide_index=True,
        height=page.table_height(len(rows)),
        key="posterior",
        alt="Probabilities of being better, equal or worse",
    )
    terms.caption(about_posterior(study, rope), "posterior")


def about_posterior(study: Study, rope: str) -> str:
    return (
        f"Bayesian signed-rank test over {plural(num_splits(study), 'split')} against {study.reference}: the "
        f"probability that better, equal within {rope} points, or worse is the most frequent outcome."
    )


def figures(study: Study) -> list[Shown]:
    found = diagram(study)
    return [] if found is None else [found]
