"""Client drift: what several local steps per round do to the average, and what SCAFFOLD's correction does.

Two clients with quadratic losses of a model of two numbers. Each loss is steep in one direction and flat in another, so
that local paths bend toward the clients' own optima, and their average misses the minimum of the mean loss.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.charts.plot import palette
from app.components.moving_figure import Picture, are_results_hidden, still
from app.stories import drift_run
from app.stories.asked import Places, asked
from app.stories.compared import side, word
from app.stories.dial_example import DialExample, load
from app.stories.drift_run import CLIENTS, LR, NAMES, ROUNDS, DriftRun, DriftStep, untrained
from app.stories.figures import dial_curve, drift_distance, drift_plane
from app.stories.questions import Choice, Estimate, Exercise
from app.stories.story import Dial, Mark, Place, Scene, reading
from app.wording import percent_pm

REAL_CLIENTS, REAL_ROUNDS = 20, 100
STEPS = ("1", "2", "5", "10", "20", "50")
CORRECTED = "10"
ON_DIGITS = "20"  # where the scene is about real clients
CLOSE = 0.05  # a distance that the plane does not show
OTHER_CLIENTS = "This run (still the two clients of the earlier scenes)"
KEY = (
    "A, B: each client's optimum and its last local steps. ★: minimum of the mean loss. Thin lines: equal mean loss. "
    "○: where the method ends."
)


class Drift:
    order = 25
    slug = "drift"
    short = "Client drift"
    kicker = "Two clients · a model of two numbers · no randomness"
    title = "What do many local steps cost?"
    lead = (
        "The goal is the minimum: the model with the lowest mean loss (error) of both clients. Exchanging models is "
        "slow, so clients take several steps before the server averages. Meanwhile each drifts to its own optimum. "
        "FedAvg averages the drifted models; SCAFFOLD corrects every step."
    )
    ending = "You have seen that clients drift apart if they take many local steps, and that a correction helps."

    @cached_property
    def scenes(self) -> Sequence[Scene]:
        return [_no_drift(), _faster(), _each_to_its_own(), _correction(), _on_real_clients()]

    @cached_property
    def exercises(self) -> Sequence[Exercise]:
        return _exercises()

    def dials(self, place: Place) -> Sequence[Dial]:
        return [Dial("steps", "Local steps per round (E)", {E: E for E in STEPS})]

    def steps(self, place: Place) -> Iterator[DriftStep]:
        return drift_run.steps(int(place["steps"]))

    def pace(self, round: int) -> float:
        return 4 + round / 2

    def draw(self, place: Place, run: DriftRun | None, marks: Sequence[Mark]) -> None:
        steps, shown = place["steps"], run.now if run else untrained(int(place["steps"]))
        names = _names(place)
        *planes, side = st.columns(len(names) + 1, gap="medium")
        for column, name in zip(planes, names, strict=True):
            with column:
                picture = _plane(name, steps, shown, run, names)
                st.header(picture.title, anchor=False)
                picture.draw()
        with side:
            beside = _accuracies(run) if steps == ON_DIGITS else _distance(steps, shown, run, names)
            st.header(beside.title, anchor=False)
            beside.draw()
            reading(self, place, beside.now)
        st.html(f'<p class="lead">{KEY}</p>')

    def picture(self, place: Place, run: DriftRun | None = None, marks: Sequence[Mark] = ()) -> Picture:
        """FedAvg's plane; SCAFFOLD's where it is the point of the scene, and accuracies where real clients are."""
        steps = place["steps"]
        if steps == ON_DIGITS:
            return _accuracies(run)
        name = "SCAFFOLD" if steps == CORRECTED else "FedAvg"
        return _plane(name, steps, run.now if run else untrained(int(steps)), run, _names(place))

    def finding(self, place: Place) -> str:
        return finding(place["steps"], _names(place))

    def config(self, place: Place) -> Mapping[str, Any]:
        return real_clients(place["steps"])

    def setup_label(self, place: Place) -> str:
        return f"FedAvg and SCAFFOLD on clients with two digits each, {_local(place['steps'])}"

    def table(self, places: Places = None) -> pd.DataFrame:
        shown = STEPS if places is None else [place["steps"] for place in places]
        rows = [
            (int(E), name, r, d)
            for E in STEPS
            if E in shown
            for name in _names_at(places)
            for r, d in enumerate(_distances(E)[name])
        ]
        return pd.DataFrame(rows, columns=["local steps", "method", "round", "distance"])

    @property
    def caption(self) -> str:
        return f"Computed live; no data, no randomness. {self.source}"

    @property
    def source(self) -> str:
        return (
            "Each client's loss is quadratic, steep in one direction and ten times flatter across it; "
            f"learning rate {LR:g}, {ROUNDS} rounds. SCAFFOLD: Karimireddy et al., ICML 2020, Algorithm 1, "
            "option II. The accuracies on digits are example results that ship with Fedscape: on the "
            f"clients' test images after {REAL_ROUNDS} rounds, means over {example().over}, computed by "
            f"`{example().command}`; bands: ± one standard deviation over the seeds."
        )


STORY = Drift()


def _names(place: Place) -> Sequence[str]:
    return _names_at(asked(STORY, place))


def _names_at(places: Places) -> Sequence[str]:
    """The methods to show: before the scene about SCAFFOLD, FedAvg only."""
    is_scaffold_known = places is None or any(place["steps"] == CORRECTED for place in places)
    return NAMES if is_scaffold_known else NAMES[:1]


def real_clients(steps: str) -> dict[str, Any]:
    """An experiment: both methods with as many local steps on real clients that differ."""
    return {
        "name": f"Client drift, {steps} local steps",
        "dataset": {"name": "digits"},
        "partition": {"name": "classes_per_client", "num_clients": REAL_CLIENTS, "classes_per_client": 2},
        "model": {"name": "mlr"},
        "training": {"rounds": REAL_ROUNDS, "local_steps": int(steps), "batch_size": "full", "lr": 0.1},
        "algorithms": [{"name": name.lower(), "label": name} for name in NAMES],
        "seeds": [0],
        "device": "cpu",
    }


def example() -> DialExample:
    """Accuracies on real clients."""
    return load("drift")


@cache
def _ended(steps: str) -> DriftStep:
    """Both methods after the last round. At most 0.1 s of arithmetic, so it takes no turn."""
    *_, last = drift_run.steps(int(steps))
    return last


@cache
def _distances(steps: str) -> Mapping[str, Any]:
    """[ROUNDS + 1]: each method's distance from the minimum by round."""
    return {name: method.distances for name, method in _ended(steps).methods.items()}


def heading(name: str, steps: str) -> str:
    """Where the method ends, unless the reader is asked: ``FedAvg ends 0.95 away``."""
    distance = float(_distances(steps)[name][-1])
    where = "at the minimum" if distance < CLOSE else f"{distance:.2f} away"
    return name if are_results_hidden() else f"{name} ends {where}"


def away(distance: float) -> str:
    """The distance from the minimum of the mean loss, in words."""
    return "at the minimum" if distance < CLOSE else f"{distance:.2f} from the minimum"


def finding(steps: str, names: Sequence[str] = NAMES) -> str:
    """Where these methods end."""
    fedavg, scaffold = (float(_distances(steps)[name][-1]) for name in NAMES)
    local = _local(steps)
    if len(names) == 1:
        return f"With {local}, FedAvg ends {away(fedavg)}, after {ROUNDS} rounds."
    if fedavg < CLOSE and scaffold < CLOSE:
        return f"With {local}, FedAvg and SCAFFOLD both end {away(fedavg)}, after {ROUNDS} rounds."
    return f"With {local}, FedAvg ends {away(fedavg)} and SCAFFOLD {away(scaffold)}, after {ROUNDS} rounds."


def _local(steps: str) -> str:
    return f"{steps} local step" if steps == "1" else f"{steps} local steps"


def rounds_to(distance: float, name: str, steps: str) -> int | None:
    """The first round at which a method is so close to the minimum; None if it never is."""
    return next((r for r, d in enumerate(_distances(steps)[name]) if d < distance), None)


def _no_drift() -> Scene:
    answers = ("At the minimum", "In the middle between A and B", "Somewhere else")
    fedavg = _distances("1")["FedAvg"]
    return Scene(
        "One step",
        {"steps": "1"},
        "A single step leaves no time to drift: averaging the clients' models is the same as one step that lowers the "
        f"mean loss. But it is slow: after 10 of {ROUNDS} rounds, the shared model is still {fedavg[10]:.2f} away.",
        finding("1", NAMES[:1]),
        Choice(
            f"In each of {ROUNDS} rounds, both clients take a step and the server averages. Where does the model end?",
            answers,
            answers[0] if fedavg[-1] < CLOSE else answers[2],
        ),
        "Point out what is drawn: A and B are the best models for one client each, the star is the best for both "
        "together. It need not lie between them.",
    )


def _faster() -> Scene:
    steps = "5"
    now, before = _distances(steps)["FedAvg"][10], _distances("1")["FedAvg"][10]
    answers = ("At the minimum, but sooner", "Near the minimum, never at it", "It never settles")
    gap = _gap(steps, CLIENTS.minimum)
    return Scene(
        "Five steps",
        {"steps": steps},
        f"After 10 rounds, FedAvg is {now:.2f} away instead of {before:.2f} with one step. But it stops at {gap:.2f}, "
        "however many rounds follow: there the local steps of A and B cancel out in the average.",
        finding(steps, NAMES[:1]),
        Choice(
            "Now five steps each before the server averages. Where does FedAvg end?",
            answers,
            answers[1] if gap > CLOSE else answers[0],
        ),
        "Stop at the end and look at the two local paths: they start at the average and lead back to it.",
    )


def _each_to_its_own() -> Scene:
    steps, optimum = "50", float(np.linalg.norm(CLIENTS.optima[0] - CLIENTS.minimum))
    return Scene(
        "Fifty steps",
        {"steps": steps},
        f"FedAvg ends close to the middle between A and B, {_gap(steps, CLIENTS.optima.mean(0)):.2f} from it. In every "
        "round, each client runs most of the way to its own optimum, so the server averages two optima. Their middle "
        "is good for neither client.",
        finding(steps, NAMES[:1]),
        Estimate(
            f"And fifty steps each? How far from the minimum does FedAvg end (A is {optimum:.1f} away from it)?",
            np.array([_distances(steps)["FedAvg"][-1]]),
            f"after {ROUNDS} rounds",
            lambda run: float(run.value),
            tuple(round(0.25 * i, 2) for i in range(13)),
            lambda distance, pm=None: f"{distance:.2f}",
        ),
        "This is training alone, with an average at the end.",
    )


def _correction() -> Scene:
    reached = rounds_to(CLOSE, "SCAFFOLD", CORRECTED)
    assert reached is not None
    scaffold = float(_distances(CORRECTED)["SCAFFOLD"][-1])
    answers = ("Yes", "No, it only comes closer", "No, it gets worse")
    return Scene(
        "A correction",
        {"steps": CORRECTED},
        f"SCAFFOLD reaches the minimum in {reached} rounds and stays there. Each client adds to its steps what they "
        "lack: the mean direction of all clients in the last round minus its own. For this, clients send and receive "
        "twice as many bytes.",
        finding(CORRECTED),
        Choice(
            "SCAFFOLD tells each client where the others went in the last round. Does it end at the minimum?",
            answers,
            answers[0] if scaffold < CLOSE else answers[1],
        ),
        "Compare the local paths of the last round: FedAvg's lead apart, SCAFFOLD's stay where they are.",
    )


def _on_real_clients() -> Scene:
    steps = ON_DIGITS
    fedavg, scaffold = (_pm(name, steps) for name in NAMES)
    gap = side(*(example().values_at(name, steps) for name in reversed(NAMES)))
    costs = word(gap, ("drift has a cost here", "drift costs little here", "the correction does not pay here"))
    pays = example().at("FedAvg", steps)[0] > example().at("FedAvg", "1")[0]
    helps = "help more than drift hurts" if pays else "hurt by drift more than they help"
    answers = ("One step: no drift", f"{steps} steps: faster")
    return Scene(
        "On real digits",
        {"steps": steps},
        f"{steps} steps {helps}; SCAFFOLD reaches {scaffold}: {costs}. {example().scope}",
        f"With two digits per client, FedAvg reaches {fedavg} with {steps} local steps and {_pm('FedAvg', '1')} with "
        f"one ({REAL_ROUNDS} rounds, {example().over}).",
        Choice(
            f"{REAL_CLIENTS} clients with two digits each, {REAL_ROUNDS} rounds of FedAvg: which ends more accurate, "
            f"one local step per round or {steps}?",
            answers,
            answers[1] if pays else answers[0],
        ),
        "The two clients exaggerate: their losses are chosen to show drift, and rounds are plentiful. Open the "
        "experiment in Set up and vary the number of rounds.",
    )


def _exercises() -> Sequence[Exercise]:
    near = next(E for E in STEPS if _distances(E)["FedAvg"][-1] > CLOSE)
    return [
        Exercise(
            "From how many local steps on does FedAvg visibly miss the minimum?",
            f"From {near}: it ends {_distances(near)['FedAvg'][-1]:.2f} away.",
        ),
        Exercise(
            "What would happen if both clients had loss surfaces of the same shape, only moved?",
            "FedAvg would reach the minimum: both would approach their optima equally fast, and the middle between the "
            "optima is then the minimum.",
        ),
        Exercise(
            "You can afford ten rounds. Which number of local steps would you choose for FedAvg?",
            f"{min(STEPS, key=lambda E: _distances(E)['FedAvg'][10])}: after ten rounds it is closest, "
            f"{min(_distances(E)['FedAvg'][10] for E in STEPS):.2f} away.",
        ),
    ]


def _gap(steps: str, there: np.ndarray) -> float:
    """How far FedAvg's limit is from the model ``there``."""
    return float(np.linalg.norm(CLIENTS.fedavg_end(int(steps), LR) - there))


def _pm(name: str, steps: str) -> str:
    return percent_pm(*example().at(name, steps), samples=100)


def standing(run: DriftRun | None, names: Sequence[str] = NAMES) -> str:
    if run is None:
        return "This run: press Play"
    first, *rest = (f"{name} {run.now.methods[name].distances[-1]:.2f}" for name in names)
    return f"This run, round {run.round}: {', '.join([f'{first} from the minimum', *rest])}"


def _plane(name: str, steps: str, shown: DriftStep, run: DriftRun | None, names: Sequence[str]) -> Picture:
    method = shown.methods[name]
    return Picture(
        _still_plane(name, steps),
        drift_plane.moving(method.server, method.paths),
        key=f"{name.lower()}_figure",
        alt=f"Local paths of two clients and the path of their average with {name}. {finding(steps, names)}",
        name=name,
        title=heading(name, steps),
        now=standing(run, names),
        note=KEY,
    )


def _distance(steps: str, shown: DriftStep, run: DriftRun | None, names: Sequence[str]) -> Picture:
    distances = {name: shown.methods[name].distances for name in names}
    return Picture(
        _still_distance(steps, tuple(names)),
        drift_distance.moving(drift_distance.data(distances)),
        key="dial_figure",
        alt=finding(steps, names),
        name="drift",
        title="Distance from the minimum",
        now=standing(run, names),
    )


def _accuracies(run: DriftRun | None) -> Picture:
    """Real clients: shipped, because they take minutes to train."""
    ends = "; ".join(
        f"{name} {_pm(name, '1')} with one local step, {_pm(name, ON_DIGITS)} with {ON_DIGITS}" for name in NAMES
    )
    return Picture(
        _still_accuracies(),
        {},
        key="digits_figure",
        alt=f"Accuracy on digits by local steps: {ends}",
        name="drift-digits",
        title="Accuracy on digits, by local steps per round",
        now=standing(run).replace("This run", OTHER_CLIENTS, 1),
    )


@still
def _still_plane(name: str, steps: str) -> go.Figure:
    return drift_plane.figure(_ended(steps).methods[name].server[-1])


@still
def _still_distance(steps: str, names: Sequence[str]) -> go.Figure:
    return drift_distance.figure(drift_distance.data({name: _distances(steps)[name] for name in names}))


@still
def _still_accuracies() -> go.Figure:
    styles = {name: palette.style_of(name.lower()) for name in NAMES}
    lines = {name: dial_curve.Line(palette.color(style), style.dash) for name, style in styles.items()}
    df, ticks = dial_curve.data(example()), [int(E) for E in STEPS]
    return dial_curve.figure(
        df, lines, "local steps per round (E)", ticks, height=230, samples=100, low=80, is_log=True, is_live=False
    )
