"""The locked requirements: one version and the hashes of every package, consistent with the .in files."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)


def pins(name: str) -> dict[str, set[str]]:
    """Versions by normalized package name; a package may have one version per range of Pythons."""
    found: dict[str, set[str]] = {}
    for package, version in PIN.findall((ROOT / name).read_text()):
        found.setdefault(re.sub(r"[-_.]+", "-", package).lower(), set()).add(version)
    return found


LOCKED = ("requirements.txt", "requirements-dev.txt", "requirements-ray.txt", "requirements-tpe.txt")


@pytest.mark.parametrize("locked", LOCKED)
def test_every_locked_package_has_a_hash(locked):
    entries = re.split(r"\n(?=\S)", (ROOT / locked).read_text())
    packages = [entry for entry in entries if not entry.startswith("#")]
    assert len(packages) > (10 if locked == "requirements-tpe.txt" else 40)
    without = [entry.splitlines()[0] for entry in packages if not (PIN.match(entry) and "--hash=sha256:" in entry)]
    assert without == []


def test_required_versions_are_locked():
    locked, dev = pins("requirements.txt"), pins("requirements-dev.txt")
    required, dev_required = pins("requirements.in"), pins("requirements-dev.in")
    assert required and dev_required
    assert {name: locked.get(name) for name in required} == required
    assert {name: dev.get(name) for name in dev_required} == dev_required


def test_the_tests_run_on_the_locked_versions():
    locked, dev = pins("requirements.txt"), pins("requirements-dev.txt")
    assert {name: dev.get(name) for name in locked} == locked


def test_ray_is_locked_and_compatible_with_the_rest():
    ray, dev = pins("requirements-ray.txt"), pins("requirements-dev.txt")
    required = pins("requirements-ray.in")
    assert required.keys() == {"ray", "psycopg"}
    assert {name: ray.get(name) for name in required} == required
    common = ray.keys() & dev.keys()
    assert {name: ray[name] for name in common} == {name: dev[name] for name in common}


def test_optuna_is_locked_as_in_the_tests_and_compatible_with_the_rest():
    locked, dev, required = pins("requirements-tpe.txt"), pins("requirements-dev.txt"), pins("requirements-tpe.in")
    assert required.keys() == {"optuna"}
    assert {name: locked.get(name) for name in required} == required
    assert {name: dev.get(name) for name in locked} == locked


def test_no_package_index_is_locked():
    for locked in LOCKED:
        assert "://" not in (ROOT / locked).read_text()


def test_the_python_api_is_importable_from_any_folder(tmp_path):
    code = "from importlib.util import find_spec; print(find_spec('engine.api').origin)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).name == "api.py"
