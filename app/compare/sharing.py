"""Whether sharing helps: a sentence if training alone may be the best."""

import pandas as pd

from app.data.comparison import ranking, surpassed
from app.statistics.intervals import MIN_BLOCKS

ALONE = "local_train"


def sharing(runs: pd.DataFrame) -> str:
    """``Sharing does not help here: ...``, or nothing where another method leads or training alone was not tried.

    ``runs`` as ``per_run`` gives them: [method, algorithm, seed, mean].
    """
    alone = set(runs.loc[runs["algorithm"] == ALONE, "method"])
    if not alone or alone == set(runs["method"]):
        return ""
    found = ranking(runs, "mean")
    if found.seeds < MIN_BLOCKS:
        return f"No method beats {found.first}, which shares nothing, in these runs." if found.first in alone else ""
    is_helpful = alone <= surpassed(runs, "mean")
    return "" if is_helpful else "Sharing does not help here: no method is clearly better than training alone."
