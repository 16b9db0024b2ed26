"""The files of the cluster guide: the SLURM script, with stand-ins for the programs that it calls, and the image."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
GUIDE = (DOCS / "how-to" / "cluster.md").read_text(encoding="utf-8")
PROGRAMS = {  # by their paths in the job's folder
    "bin/scontrol": "echo node1",
    "bin/srun": "exit 0",
    "bin/sleep": "exit 0",
    "bin/openssl": "echo secret",
    ".venv/bin/python": """trap "exit 7" TERM
touch computes
while [ ! -e code ]; do /bin/sleep 0.05; done
exit "$(cat code)"
""",
}
WAIT = "trap '[[ $BASH_COMMAND != wait* ]] || touch waits' DEBUG\n"  # tells the tests when the script has set its traps

Job = subprocess.Popen[bytes]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """The script, waiting for its dispatcher, which exits with the number in the file ``code``."""
    (script,) = re.findall(r"^```bash\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
    for name, text in PROGRAMS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    slurm = {"SUBMIT_DIR": tmp_path, "JOB_ID": 1, "JOB_NODELIST": "node1", "CPUS_PER_TASK": 1, "JOB_NUM_NODES": 1}
    environment = {f"SLURM_{name}": str(value) for name, value in slurm.items()}
    environment |= {"HOME": str(tmp_path), "USER": "me", "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    process = subprocess.Popen(["/bin/bash", "-c", WAIT + script], env=environment, cwd=tmp_path)
    while not ((tmp_path / "waits").exists() and (tmp_path / "computes").exists()):
        assert process.poll() is None
        time.sleep(0.01)
    assert len(tokens(tmp_path)) == 1
    yield process
    end_dispatcher(tmp_path, 0)
    process.wait(60)


def end_dispatcher(folder: Path, code: int) -> None:
    (folder / "new").write_text(str(code))
    (folder / "new").rename(folder / "code")


def tokens(folder: Path) -> list[Path]:
    return list(folder.glob(".fedscape-token-*"))


@pytest.mark.parametrize("code", [0, 2])
def test_a_slurm_job_ends_with_its_dispatcher(job: Job, tmp_path: Path, code: int) -> None:
    end_dispatcher(tmp_path, code)
    assert job.wait(60) == code
    assert tokens(tmp_path) == []


def test_a_terminated_slurm_job_stops_its_dispatcher(job: Job, tmp_path: Path) -> None:
    job.send_signal(signal.SIGTERM)
    assert job.wait(60) == 7
    assert tokens(tmp_path) == []


def test_the_image_contains_the_requirements_that_the_docs_install() -> None:
    pages = [page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"-r (requirements[\w-]*\.txt)", page)}
    assert named == {"requirements-ray.txt", "requirements-tpe.txt"}
    assert named <= {line.removeprefix("!") for line in (DOCS.parent / ".dockerignore").read_text().split()}


def test_the_image_with_ray_installs_as_root_and_runs_as_fedscape() -> None:
    (image,) = re.findall(r"^```dockerfile\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
    steps = [line for line in image.splitlines() if not line.startswith("#")]
    install = "RUN pip install --require-hashes -r requirements-ray.txt"
    assert steps == ["FROM fedscape", "USER root", install, "USER fedscape"]
    assert "USER fedscape" in (DOCS.parent / "Dockerfile").read_text().splitlines()
