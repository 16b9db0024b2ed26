"""A choice of a page, declared once: for the control that makes it, and for what is made of it without a screen."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.state import url_state, widgets

Choices = Mapping[str, str]
"""All choices of a page by name, as its address says them."""


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
        """What is chosen, without a control."""
        return url_state.value(self.name, self.titles, self.default)

    def made_in(self, choices: Choices) -> str:
        """What was chosen, where it is among the titles."""
        chosen = choices.get(self.name, self.default)
        return chosen if chosen in self.titles else self.default
