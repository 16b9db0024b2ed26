"""What the tests on a GPU need: the engine and pytest, without the app, the database and slow imports."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.core.slow_imports import SLOW_IMPORTS

ROOT = Path(__file__).parents[2]
ABSENT = ("app", "storage", "streamlit", "sqlalchemy", "alembic", "plotly", "pandas", "pyarrow", "torchvision")
ABSENT += ("beartype", "hypothesis", "xdist", "playwright", *SLOW_IMPORTS)
CODE = f"""
import sys
for name in {ABSENT}:
    sys.modules[name] = None
import pytest
sys.exit(pytest.main(["-q", "--collect-only", "-p", "pytest_timeout", "-p", "no:cacheprovider",
                      "--confcutdir=tests/gpu", "-m", "gpu", "tests/gpu"]))
"""


@pytest.mark.slow
def test_the_tests_on_a_gpu_are_collected_without_the_app_and_the_database(monkeypatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    done = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_a_round_equals_that_of_the_loop_on_the_cpu[cuda-fedavg-cnn]" in done.stdout


def test_without_a_gpu_make_gpu_says_so_in_one_line(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("class cuda:\n    is_available = staticmethod(lambda: False)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("GPU_PYTHON", sys.executable)
    done = subprocess.run([".ci/gpu"], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("make gpu: PyTorch finds no GPU here; run it on") and done.stderr.count("\n") == 1
