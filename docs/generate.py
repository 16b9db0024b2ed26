"""Write the pages of docs/ that come from the code.  ``make docs``"""

from collections.abc import Callable
from pathlib import Path

from docs import catalogue, command_line, configuration

PAGES: dict[Path, Callable[[], str]] = {
    command_line.PAGE: command_line.reference,
    configuration.PAGE: configuration.page,
    catalogue.PAGE: catalogue.page,
}

if __name__ == "__main__":
    for path, page in PAGES.items():
        path.write_text(page(), encoding="utf-8")
