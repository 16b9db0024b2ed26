"""A choice of a page, declared once: for the control that makes it, and for code that runs without a page."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.state import url_state, widgets

Choices = Mapping[str, str]
"""All choices of a page by name, as in its address."""


@dataclass(frozen=True)
class Choice:
    """One of ``titles``, in the address under ``name`` unless it is the ``default``."""

    label: str
    titles: Mapping[str, str]
    name: str
    default: str

    def switch(self, *, is_labeled: bool = True) -> str:
        return widgets.switch(self.label, self.titles, self.name, self.default, is_labeled=is_labeled)

    def pick(self) -> str:
        return widgets.pick(self.label, self.titles, self.name, self.default)

    def slide(self) -> str:
        return widgets.slide(self.label, self.titles, self.name, self.default)

    def value(self) -> str:
        """The chosen value, without a control."""
        return url_state.value(self.name, self.titles, self.default)

    def made_in(self, choices: Choices) -> str:
        """The chosen value, or the default if it is unknown."""
        chosen = choices.get(self.name, self.default)
        return chosen if chosen in self.titles else self.default
