"""python -m benchmarks.peers PEER --python PYTHON: prints a Markdown table of ratios."""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.peers.beside import Program, compare, difference, heading
from benchmarks.peers.known import PEERS
from benchmarks.peers.settings import CHECKED, SETTINGS
from benchmarks.peers.turns import Job

TOLERANCE = 1e-3  # largest difference of a weight, over the largest change: float32 sums in another order
TOLERANCE_OF_CNN = (
    0.1  # after several steps: a unit that rounding makes positive on one side only changes by the gradient of a sample
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--python", required=True, help="the interpreter that has the library")
    parser.add_argument("--path", default="", help="the library's checkout: PFLlib")
    parser.add_argument("--setting", choices=SETTINGS, default="mnist")
    parser.add_argument("--models", nargs="+", help="of the setting; all by default")
    parser.add_argument("--methods", nargs="+", help="all that the library has by default")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument(
        "--clock",
        choices=("seconds", "processor_seconds"),
        default="seconds",
        help="processor_seconds beside other work",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of both sides; cuda with PFLlib only")
    options = parser.parse_args()
    peer, setting = PEERS[options.peer], SETTINGS[options.setting]
    if options.device not in peer.devices:
        parser.error(f"the rounds of {peer.title} are measured on a CPU only; leave --device out")
    if peer.needs_path and not options.path:
        parser.error(f"{peer.title} is not installed: --path names its checkout")
    ours = Program.of("ours", sys.executable)
    theirs = [
        Program.of(options.peer, options.python, peer.prefix, path=options.path, in_memory=in_memory)
        for in_memory in peer.variants.values()
    ]
    models = options.models or setting.models
    methods = {model: [m for m in peer.methods_on(model) if m in (options.methods or peer.methods)] for model in models}
    with TemporaryDirectory(prefix="peers-") as name:
        checked, folder = Path(name) / "checked", Path(name) / "measured"
        CHECKED.write(checked)
        for model in models:
            for method in methods[model]:
                if method in peer.same_weights:
                    check(ours, theirs[-1], CHECKED.job(method, model, checked, options.device))
        setting.write(folder)
        what = f"{options.device}, one thread each, {options.clock.replace('_', ' ')}"
        print(f"\n{setting}. {what}, median (range) of {options.repeats}")
        print(f"Load {os.getloadavg()[0]:.1f}\n\n{heading(list(peer.variants))}", flush=True)
        for model in models:
            for method in methods[model]:
                job = setting.job(method, model, folder, options.device)
                print(compare(ours, theirs, job, options.repeats, options.clock), flush=True)
    print(f"\nLoad {os.getloadavg()[0]:.1f}")


def check(ours: Program, theirs: Program, job: Job) -> None:
    """Exits if the global models differ after one full batch, or after two rounds of three, from the same weights."""
    several = TOLERANCE_OF_CNN if job.model == "cnn" else TOLERANCE
    for rounds, epochs, tolerance in ((1, 1, TOLERANCE), (2, 3, several)):
        apart, moved = difference(ours, theirs, replace(job, local_epochs=epochs), rounds)
        steps = f"{rounds} x {epochs} steps"
        print(f"{job.method} {job.model}, {steps}: weights changed by up to {moved:.2g}, differ by up to {apart:.2g}")
        if not apart < tolerance * moved:
            raise SystemExit("not the same computation")


if __name__ == "__main__":
    main()
