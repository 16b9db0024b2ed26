"""``python -m engine``: the command line."""

import gc
import os
import signal
import sys

from engine.cli.arguments import WITHOUT_TORCH, parser

INTERRUPTED = 130

if __name__ == "__main__":
    arguments = parser().parse_args()
    # Torch takes seconds to load, and nothing has started yet: Ctrl-C ends the process immediately.
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    gc.disable()  # nothing that is imported is ever garbage, and looking for some takes a fifth of the time
    if arguments.command in WITHOUT_TORCH:
        from engine.cli.manage import main
    else:
        from engine.cli.run import main

    gc.freeze()
    gc.enable()
    signal.signal(signal.SIGINT, before)
    sys.exit(main(arguments))
