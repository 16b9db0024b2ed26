"""``python -m engine``: the command line."""

import sys

from engine.arguments import parser

if __name__ == "__main__":
    arguments = parser().parse_args()
    from engine.cli import main  # after the arguments are understood: torch takes seconds to load

    sys.exit(main(arguments))
