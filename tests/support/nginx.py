"""The nginx of this machine, if there is one: it is needed only to test the configuration in the guide."""

import shutil

FOLDERS = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin"


def nginx_program() -> str | None:
    """Its path, or None. Debian's folder is not in the PATH of users other than root."""
    return shutil.which("nginx") or shutil.which("nginx", path=FOLDERS)
