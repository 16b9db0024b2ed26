"""Whether the files of a data set changed, by their sizes and modification times."""

import glob
import hashlib
import os
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path

MOST = 1000  # files and folders


def file_state(patterns: Iterable[str], data_dir: Path) -> str:
    """Differs after a file or folder that matches one of ``patterns``, relative to ``data_dir``, was replaced.

    A matching folder counts by its own modification time: files that are added or removed change it, and one that is
    overwritten in place does not. At most ``MOST`` matches count, since folders of images have many.
    """
    home, digest = glob.escape(str(data_dir)), hashlib.sha256()
    matches = chain.from_iterable(glob.iglob(os.path.join(home, pattern)) for pattern in patterns)
    for path in sorted(islice(matches, MOST)):
        try:
            found = os.stat(path)
        except OSError:  # a link that leads nowhere, or a file that was just removed
            continue
        digest.update(f"{path}\0{found.st_mtime_ns}\0{found.st_size}\0".encode(errors="surrogatepass"))
    return digest.hexdigest()
