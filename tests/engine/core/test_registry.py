"""Methods are found by name: those that ship, and the worked example of CONTRIBUTING.md in a plugin folder."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.core.registry import ALGORITHMS

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = re.compile(r"<!-- example: my_method\.py -->\n```python\n(.*?)```", re.DOTALL)


def test_the_first_eight_methods_are_registered():
    assert {"local_train", "fedavg", "fedprox", "fedprox_onestage", "pfedme", "cgpfl", "cgpfl_heur", "ditto"} <= set(
        ALGORITHMS.names()
    )


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    found = EXAMPLE.search((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert found, "CONTRIBUTING.md has lost its example"
    folder = tmp_path / "plugins" / "algorithms"
    folder.mkdir(parents=True)
    (folder / "my_method.py").write_text(found[1], encoding="utf-8")
    return folder.parent


def test_the_worked_example_runs_and_is_fedavg_where_it_should_be(plugins: Path, tmp_path: Path):
    config = {
        "dataset": "digits",
        "partition": {"name": "iid", "num_clients": 5, "holdout_clients": 0.2},
        "model": "mlr",
        "training": {"rounds": 2, "local_steps": 2},
        "algorithms": ["fedavg", {"name": "fedavg_server", "sweep": {"server_lr": [1.0, 0.5]}}],
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    script = (
        "import json, sys; from engine import run; from engine.core.registry import ALGORITHMS;"
        "print(json.dumps({'names': ALGORITHMS.names(), 'runs': json.loads(run(sys.argv[1]).to_json())['runs']}))"
    )
    environment = os.environ | {"FEDSCAPE_PLUGINS": str(plugins), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "config.json")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "fedavg_server" in found["names"]
    fedavg, whole, half = ([r["global"] for r in run["rounds"]] for run in found["runs"])
    assert whole == fedavg and half[0] == fedavg[0] and half[2] != fedavg[2]
    unseen = [run["rounds"][-1]["unseen"]["accuracy"] for run in found["runs"]]
    assert unseen[0] == unseen[1] and len(unseen[0]) == 1
