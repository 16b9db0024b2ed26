"""Learn: one question, one dial, and a run that the engine trains while the reader watches."""

import html
from typing import Any

import streamlit as st

from app import address, links, palette
from app.charts import client_plane, lambda_dial
from app.components import page
from app.components.moving_figure import moving_figure, still
from app.stories import desk
from app.stories import lambda_dial as story
from app.stories.desk import Desk
from app.stories.lambda_dial import ADAPTIVE, Dial, example

TICK_S = 0.25
GLIDE_MS = 220
SPREADS = {f"{R:g}": R for R in story.SPREADS}
CSS = """<style>
.st-key-stage [data-testid="stElementContainer"] { opacity: 1 !important; transition: none !important; }
.reading { line-height: 1.55; margin: 0; max-width: 34rem; }
.reading b { font-variant-numeric: tabular-nums; }
</style>"""


def render() -> None:
    page.header(
        "Synthetic · 10 clients · 200 samples each · logistic regression",
        "How much should clients share?",
        "Each client has a truth of its own and too little data to find it. λ pulls its model towards the common one: "
        "at one end everybody learns alone, at the other all use one model.",
    )
    st.html(CSS)
    mine = st.session_state.setdefault("learn", Desk())
    R, dial = places(mine)
    scenes(mine, R, dial)
    controls(mine, R, dial)
    with st.container(key="stage"):
        st.fragment(stage, run_every=TICK_S if mine.is_playing else None)(mine, R, dial)
    below(R, dial)


def places(mine: Desk) -> tuple[float, Dial]:
    """Where the dials stand: as the address says at first, then as the reader left them.

    The address only follows. A tick that was on its way when a dial moved still brings the address of before.
    """
    if mine.dials is None:
        spread = address.value("spread", list(SPREADS), "1")
        stops = story.stops(SPREADS[spread])
        mine.dials = SPREADS[spread], stops[address.value("share", list(stops), ADAPTIVE)]
    R, dial = mine.dials
    said = {"spread": f"{R:g}", "share": story.text(dial)}
    shown = {"spread": st.query_params.get("spread", "1"), "share": st.query_params.get("share", ADAPTIVE)}
    if shown != said:
        st.query_params.update(said)
    return R, dial


def scenes(mine: Desk, R: float, dial: Dial) -> None:
    """The steps of the story; each sets the dials and plays."""
    now = story.scene_at(R, dial)
    with st.container(horizontal=True, gap="small", key="scenes"):
        for number, scene in enumerate(story.SCENES, 1):
            st.button(
                f"{number} · {scene.title}",
                key=f"scene_{number}",
                type="secondary" if scene is now else "tertiary",
                on_click=open_scene,
                args=(mine, scene),
            )


def open_scene(mine: Desk, scene: story.Scene) -> None:
    mine.dials = scene.R, scene.dial
    mine.play()


def controls(mine: Desk, R: float, dial: Dial) -> None:
    """The two dials and the three buttons."""
    stops = story.stops(R)
    titles = {said: said for said in stops} | {ADAPTIVE: f"★ adaptive, {example().curve(R).adaptive_lam:.2g}"}
    st.session_state.update(spread=f"{R:g}", share=story.text(dial))
    spread, share, buttons = st.columns([3, 5, 3], vertical_alignment="bottom", gap="medium")
    with spread:
        st.select_slider("R, how different the clients are", list(SPREADS), key="spread", on_change=turn, args=(mine,))
    with share:
        label = "λ, how much they share"
        st.select_slider(label, list(stops), format_func=titles.__getitem__, key="share", on_change=turn, args=(mine,))
    with buttons, st.container(horizontal=True, gap="small"):
        if mine.is_playing:
            st.button("Pause", key="pause", type="primary", on_click=mine.pause)
        else:
            st.button("Play", key="play", type="primary", on_click=mine.play)
        st.button("Step", key="step", on_click=mine.step, help="One round")
        st.button("Reset", key="reset", on_click=mine.reset, help="Back to the untrained models")


def turn(mine: Desk) -> None:
    R = SPREADS[st.session_state.spread]
    mine.dials = R, story.stops(R)[st.session_state.share]


def stage(mine: Desk, R: float, dial: Dial) -> None:
    """What moves: a slice of training, then the two figures and the text beside them."""
    run = mine.train(R, dial)
    standing, errors = (run.standing, run.errors) if run else (story.untrained(R), [story.untrained(R).error])
    wide, side = st.columns([3, 2], gap="large")
    with wide:
        st.subheader("Error to the truth, for every λ", anchor=False)
        dial_figure(R, dial, errors, mine.ends[R])
    with side:
        st.subheader("Ten clients: ○ truth, ● model, + common", anchor=False)
        client_figure(R, standing)
        reading(R, dial, standing)
    if run and run.is_settled and mine.is_playing:
        mine.pause()
        st.rerun()


def dial_figure(R: float, dial: Dial, errors: list[float], ends: list[tuple[float | None, float]]) -> None:
    curve = example().curve(R)
    alt = (
        f"Error against lambda at R = {R:g}: alone {curve.alone:.2f}, best {curve.best:.2f} at "
        f"lambda {curve.best_lam:g}, together {curve.together:.2f}, adaptive {curve.adaptive:.2f}; "
        f"your run is at {errors[-1]:.2f}"
    )
    figure = still_dial(R, palette.is_dark(), palette.is_presenting())
    moves = lambda_dial.moving(example().lam_of(R, dial), errors, ends)
    moving_figure(figure, moves, key="dial_figure", alt=alt, name="lambda-dial", glide_ms=GLIDE_MS)


@st.cache_data(show_spinner=False)
def still_dial(R: float, is_dark: bool, is_presenting: bool) -> dict[str, Any]:
    """The figure without the runs: drawing it anew at every tick would cost more than the training."""
    return still(lambda_dial.figure(lambda_dial.data(example()), R))


def client_figure(R: float, standing: story.Standing) -> None:
    df = client_plane.data(example(), R, standing.models)
    alt = f"Each client's true model and its own in a plane; the mean squared distance is {standing.error:.2f}"
    figure = still_clients(R, palette.is_dark(), palette.is_presenting())
    shared = None if standing.shared is None else example().in_plane(R, standing.shared)
    moves = client_plane.moving(df, shared)
    moving_figure(figure, moves, key="client_figure", alt=alt, name="clients-and-truths", glide_ms=GLIDE_MS)


@st.cache_data(show_spinner=False)
def still_clients(R: float, is_dark: bool, is_presenting: bool) -> dict[str, Any]:
    return still(client_plane.figure(client_plane.data(example(), R, story.untrained(R).models)))


def reading(R: float, dial: Dial, standing: story.Standing) -> None:
    """Where the run is now, and what this place of the dials is worth."""
    lam, scene = example().lam_of(R, dial), story.scene_at(R, dial)
    setting = "one model for all" if lam is None else f"λ = {lam:.2g}"
    now = f"Round {standing.round} · {setting} · error {standing.error:.2f}"
    st.html(f'<p class="reading"><b>{now}</b><br>{html.escape(scene.told() if scene else story.finding(R, dial))}</p>')


def below(R: float, dial: Dial) -> None:
    """The way to an experiment of one's own, the numbers of the curves, and where they come from."""
    with st.container(horizontal=True, vertical_alignment="center"):
        link = links.setup_link(story.comparison(R, dial))
        st.html(f'<a href="{html.escape(link)}">Open in Set up: both ends, adaptive and this λ at R = {R:g}</a>')
        page.table_button(lambda_dial.data(example()), key="dial_curves", name="lambda-dial")
    st.caption(
        "The dots are trained by the engine in this page, by gradient descent. The curves are example results that "
        f"ship with the product: the exact minimisers on the same data, computed by `{example().command}`. "
        "Clients drawn anew move the curves up or down and keep their shape."
    )
    warm_up()


@st.cache_resource(show_spinner=False)
def warm_up() -> None:
    """Load the engine while the reader reads, so that Play starts at once."""
    desk.start(1.0, ADAPTIVE).advance(1)


render()
