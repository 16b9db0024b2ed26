"""The sources of a comparison's numbers: the user's database, or results that ship with the product."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pandas as pd

from engine.core.findings import Findings
from engine.core.vocabulary import ModelKind, When
from storage import RunRecord


class Source(Protocol):
    """The reads of ``app.data.queries`` that figures need; the module itself is one."""

    def final_clients(
        self, of: Sequence[RunRecord], model: ModelKind = "personalized", when: When = "last"
    ) -> pd.DataFrame: ...

    def unseen_clients(self, of: Sequence[RunRecord]) -> pd.DataFrame: ...

    def final_means(
        self, of: Sequence[RunRecord], name: str, model: ModelKind = "personalized", when: When = "last"
    ) -> pd.Series: ...

    def scalar_series(self, of: Sequence[RunRecord], names: Sequence[str]) -> pd.DataFrame: ...

    def final_scalars(self, of: Sequence[RunRecord], name: str) -> pd.Series: ...

    def scalar_totals(self, until: Mapping[int, int], names: Sequence[str]) -> pd.DataFrame: ...

    def mean_series(self, of: Sequence[RunRecord], names: Sequence[str]) -> pd.DataFrame: ...

    def clustered(self, run_ids: Sequence[int]) -> set[int]: ...

    def clusters(self, run_id: int) -> tuple[np.ndarray, np.ndarray]: ...

    def analysis(self, run_id: int, kind: str) -> Findings | None: ...
