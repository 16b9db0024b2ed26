"""The choices for a printed figure, and the widths and fonts of publishers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Legend = Literal["below", "beside", "off"]
Font = Literal["times", "cm", "sans"]

# Inches, from the style files: \columnwidth and \textwidth.
WIDTHS: dict[str, tuple[str, float]] = {
    "icml": ("ICML, single column", 3.25),
    "icml2": ("ICML, double column", 6.75),
    "neurips": ("NeurIPS, ICLR", 5.5),
    "ieee": ("IEEE, single column", 3.5),
    "ieee2": ("IEEE, double column", 7.16),
    "acm": ("ACM, single column", 3.33),
    "acm2": ("ACM, double column", 7.0),
    "aaai": ("AAAI, single column", 3.3),
    "aaai2": ("AAAI, double column", 7.0),
    "acl": ("ACL, single column", 3.03),
    "acl2": ("ACL, double column", 6.3),
    "jmlr": ("JMLR", 6.0),
    "lncs": ("Springer LNCS", 4.8),
}
FONTS: dict[Font, str] = {
    "times": "Times (ICML, NeurIPS, IEEE)",
    "cm": "Computer Modern (LaTeX's default)",
    "sans": "Sans serif",
}
LEGENDS: dict[Legend, str] = {"below": "Below", "beside": "Next to the marks", "off": "Off"}
WIDTH_RANGE, HEIGHT_RANGE, SIZE_RANGE = (1.0, 20.0), (0.5, 20.0), (4.0, 24.0)  # inches, inches, points
MAX_PANELS = 8
MIN_PANEL_WIDTH = 2.5  # inches of a panel next to another one


@dataclass(frozen=True)
class Settings:
    """``width`` and ``height`` are those of the whole figure in inches; without a height it follows the charts.

    ``size`` is the font size in points, ``columns`` how many panels are side by side; 0: as many as have room.
    ``titles`` are written above the panels, next to their letters.
    """

    width: float = 3.25
    height: float | None = None
    font: Font = "times"
    size: float = 8.0
    legend: Legend = "below"
    columns: int = 0
    titles: Sequence[str] = ()

    def __post_init__(self) -> None:
        _check("width", self.width, *WIDTH_RANGE)
        _check("size", self.size, *SIZE_RANGE)
        if self.height is not None:
            _check("height", self.height, *HEIGHT_RANGE)
        if self.font not in FONTS:
            raise ValueError(f"no font {self.font!r}; known: {', '.join(FONTS)}")
        if self.legend not in LEGENDS:
            raise ValueError(f"no legend {self.legend!r}; known: {', '.join(LEGENDS)}")
        _check("columns", self.columns, 0, MAX_PANELS)

    def in_a_row(self, panels: int) -> int:
        """The number of ``panels`` in a row."""
        return min(panels, self.columns or max(1, int(self.width / MIN_PANEL_WIDTH)))


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} = {value:g} must be between {low:g} and {high:g}")
