"""The story on contexts and clusters: its shipped numbers, its run and its figures."""

import numpy as np
import pytest

from app.stories import contexts as story
from app.stories.asked import asked
from app.stories.context_curve import CLUSTERS, HEUR, NUM_CLIENTS, NUM_CONTEXTS, Example, Guesses, example, stops
from app.stories.context_run import in_plane, steps
from app.stories.contexts import STORY
from app.stories.figures import chosen_clusters, context_count, context_plane
from engine.config.schema import parse_experiment
from engine.simulation.simulate import Simulation
from tests.support.stories import run_of, simulations_of

FULL = len(CLUSTERS)
SMALL = Example(
    command="python -m benchmarks.story_contexts",
    accuracies=np.stack([np.linspace(0.5, 0.7, FULL), np.linspace(0.7, 0.9, FULL)], axis=1),
    alone=np.array([0.6, 0.8]),
    together=np.array([0.2, 0.4]),
    heuristic=np.array([0.65, 0.75]),
    guesses=(Guesses(30, 1.5, (3, 4)), Guesses(6, 1.5, (1, 9))),
)
TURN = np.array([[0.0, 1.0], [-1.0, 0.0]])


@pytest.mark.slow
def test_the_shipped_accuracies_match_the_engine() -> None:
    run = run_of(STORY.steps({"clusters": "4"}))
    run.advance(story.ROUNDS)
    assert run.is_settled
    assert run.value == pytest.approx(example().goal(4), abs=5e-4)


def test_the_shipped_number_of_clusters_matches_the_heuristic() -> None:
    (simulation,) = simulations_of(STORY.steps({"clusters": HEUR}))
    assert next(simulation.rounds()).scalars["diagnostics.K_hat"] == example().K_hat


def test_wrong_estimates_of_the_heuristic_match_the_engine() -> None:
    hard = next(g for g in example().guesses if g.hits < len(g.K_hats) / 2)
    config = story.experiment(story.method(HEUR), rounds=1, training_samples=hard.training_samples, noise=hard.noise)
    *_, result = Simulation(parse_experiment(config).runs()[0]).rounds()
    assert result.scalars["diagnostics.K_hat"] == hard.K_hats[0]


def test_clients_have_the_stated_numbers_of_samples() -> None:
    summary = simulations_of(STORY.steps({"clusters": "1"}))[0].task.data.summary
    assert set(summary.train_sizes) == {story.TRAINING_SAMPLES}
    assert set(summary.test_sizes) == {story.TEST_SAMPLES}
    assert summary.contexts == tuple(i % NUM_CONTEXTS for i in range(NUM_CLIENTS))


@pytest.mark.parametrize("clusters", ["1", "4", HEUR])
def test_set_up_opens_the_shown_run_with_both_references(clusters: str) -> None:
    opened = parse_experiment(STORY.config({"clusters": clusters})).runs()
    shown = simulations_of(STORY.steps({"clusters": clusters}))[0].config
    assert shown.digest in {run.digest for run in opened}
    assert {"Alone", "Together", "Heuristic"} <= {run.label for run in opened}


def test_the_slider_goes_from_one_cluster_to_one_per_client() -> None:
    places = list(stops())
    assert (places[0], places[-1]) == ("1", f"{NUM_CLIENTS}")
    assert places[places.index(HEUR) - 1] == f"{example().K_hat}"


def test_a_scene_has_its_number() -> None:
    draws = example().accuracies[CLUSTERS.index(4)]
    assert f"{100 * draws.mean():.0f} ± {100 * draws.std(ddof=1):.0f} %" in STORY.scenes[2].text


def test_claims_about_the_numbers_hold() -> None:
    there = example()
    accuracy = {K: there.goal(K) for K in CLUSTERS}
    assert there.best_K == there.K_hat == NUM_CONTEXTS
    assert accuracy[2] < accuracy[NUM_CONTEXTS] > accuracy[10] > accuracy[NUM_CLIENTS]
    assert there.together[0] < accuracy[1] < there.alone[0]
    assert accuracy[NUM_CLIENTS] == pytest.approx(there.alone[0], abs=0.05)


def test_the_heuristics_choices_are_counted_in_words() -> None:
    assert story._chosen(Guesses(6, 1.0, (4, 4))) == "K = 4 in all 2 draws"
    assert story._chosen(Guesses(6, 1.0, (1, 4, 1, 9))) == "K = 1 in 2, 4 in 1 and 9 in 1 of 4 draws"


def test_the_plane_preserves_distances_of_coplanar_models() -> None:
    models = np.zeros((4, 5))
    models[:, 1:3] = [[0, 0], [3, 0], [0, 4], [3, 4]]
    places, centers = in_plane(models, models[:1], np.zeros((4, 2)))
    assert np.linalg.norm(places[0] - places[3]) == pytest.approx(5)
    assert centers[0] == pytest.approx(places[0])


def test_the_plane_does_not_rotate_between_rounds() -> None:
    models = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 1.0], [4.0, 1.0]])
    before, _ = in_plane(models, models, np.zeros((4, 2)))
    again, _ = in_plane(models @ TURN, models, before)
    mirrored, _ = in_plane(models * [-1, 1], models, before)
    assert again == pytest.approx(before)
    assert mirrored == pytest.approx(before)


def test_equal_models_are_one_point() -> None:
    places, centers = in_plane(np.ones((3, 4)), np.ones((3, 4)), np.zeros((3, 2)))
    assert not places.any() and not centers.any()


def test_with_the_true_number_each_cluster_is_a_context() -> None:
    run = run_of(STORY.steps({"clusters": "4"}))
    run.advance(5)
    contexts = np.arange(NUM_CLIENTS) % NUM_CONTEXTS
    assert len({*zip(contexts.tolist(), run.now.clusters.tolist(), strict=True)}) == NUM_CONTEXTS
    assert len(run.steps) == 6


def test_with_two_clusters_one_holds_three_contexts_as_the_scene_says() -> None:
    scene = STORY.scenes[1]
    run = run_of(STORY.steps(scene.place))
    run.advance(3)
    contexts = np.arange(NUM_CLIENTS) % NUM_CONTEXTS
    assert sorted(len(set(contexts[run.now.clusters == k])) for k in set(run.now.clusters)) == [1, 3]
    assert "one cluster holds three shapes and the other only one" in scene.notes


def test_a_run_starts_with_one_model_for_all() -> None:
    run = run_of(steps(story.experiment(story.method(3))))
    assert run.round == 0 and not run.now.places.any() and set(run.now.clusters) == {0}


def test_the_curve_has_the_shipped_accuracies_and_spread() -> None:
    df = context_count.data(SMALL).set_index(["method", "K"])
    first = df.loc[("cgpfl", 1)]
    assert first.tolist() == pytest.approx([0.5, 0.6, 0.02**0.5, 2])
    assert df.loc[("cgpfl_heur", 3), "shown"].item() == 0.65


def test_the_curve_of_a_scene_ends_at_its_number_and_names_no_later_one() -> None:
    df = context_count.data(SMALL)
    first, whole = (str(context_count.figure(df, up_to).data) for up_to in (1, None))
    for words in ("heuristic: K", "true contexts"):
        assert words in whole and words not in first
    assert "one FedAvg model" in first
    shown = [story._most(asked(STORY, scene.place)) for scene in STORY.scenes]
    assert shown == [1, 2, 4, 10, NUM_CLIENTS, None] and story._most(asked(STORY, {"clusters": "3"})) is None


def test_the_scene_on_a_cluster_for_each_client_says_why_it_ends_like_learning_alone() -> None:
    assert "learns nothing from the others" in STORY.scenes[4].text


def test_the_scene_on_the_heuristic_shows_its_choices_also_with_few_samples() -> None:
    picture = STORY.picture(STORY.scenes[-1].place, None, [])
    assert "6 samples and noise 1.5: K = 1 in 6, 9 in 2 and 4 in 2 of 10 draws" in picture.alt
    df = chosen_clusters.data([Guesses(30, 1.5, (4, 4)), Guesses(6, 1.5, (1, 4))])
    fig = chosen_clusters.figure(df)
    assert (list(fig.data[0].x), list(fig.data[0].y), list(fig.data[0].text)) == (
        [4, 1, 4],
        [0, -1, -1],
        ["2", "1", "1"],
    )
    assert list(fig.layout.yaxis.ticktext) == ["30 samples,<br>noise 1.5", "6 samples,<br>noise 1.5"]
    assert STORY.curve.title.endswith("(30 samples per client)")


def test_the_label_of_the_star_is_below_the_note_above_it() -> None:
    assert context_count.figure(context_count.data(SMALL)).layout.yaxis.range[1] > 110


def test_one_cluster_per_client_lies_beyond_the_axis_break() -> None:
    assert context_count.place(10) < context_count.place(NUM_CLIENTS) < NUM_CLIENTS


def test_the_dot_has_a_line_from_its_start() -> None:
    moves = context_count.moving(4, [0.1, 0.6], [(2, 0.5)])
    assert moves["way"] == {"x": [4, 4], "y": pytest.approx([10, 60])}
    assert moves["your run"] == {"x": [4], "y": pytest.approx([60])}
    assert moves["earlier runs"] == {"x": [2], "y": pytest.approx([50])}


def test_before_a_run_there_is_no_dot() -> None:
    assert context_count.moving(4, [], [])["your run"] == {"x": [], "y": []}


def test_everything_animated_has_a_trace() -> None:
    count = context_count.figure(context_count.data(SMALL))
    plane = context_plane.figure(NUM_CONTEXTS, 2.0)
    moves = context_plane.moving(story._models(None), 2.0)
    assert set(context_count.moving(4, [0.5], [])) <= {trace.name for trace in count.data}
    assert set(moves) <= {trace.name for trace in plane.data}


def test_letters_are_clusters_and_shapes_are_contexts() -> None:
    places = np.arange(8.0).reshape(4, 2)
    df = context_plane.data(places, places, np.array([0, 1, 1, 0]), np.full(4, 0.5), num_contexts=2)
    moves = context_plane.moving(df, 2.0)
    assert moves["context 0"]["text"] == ["A", "B"] and moves["context 1"]["text"] == ["B", "A"]
    first, second = (moves[f"context {g}"]["marker"] for g in (0, 1))
    assert first["symbol"] != second["symbol"] and first["color"] == second["color"][::-1]
    assert "A: 1 of context 1 and 1 of context 2" in context_plane.finding(df)


def test_clients_whose_models_coincide_are_drawn_apart() -> None:
    moves = context_plane.moving(story._models(None), 2.0)
    drawn = [
        place for g in range(NUM_CONTEXTS) for place in zip(*(moves[f"context {g}"][a] for a in "xy"), strict=True)
    ]
    assert np.hypot(*np.transpose(drawn)) == pytest.approx(np.full(NUM_CLIENTS, 2 * context_plane.RING))
    assert len({tuple(np.round(place, 6)) for place in drawn}) == NUM_CLIENTS
