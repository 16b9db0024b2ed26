"""The networks of the papers: sizes, shapes, and stacked computation for many clients."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from engine.backends.batched import Batched
from engine.backends.fused import linear_chain
from engine.backends.loop import Loop
from engine.config.schema import parse_experiment
from engine.core.errors import Unsupported
from engine.core.registry import MODELS
from engine.federation.batches import Batch
from engine.models import Model
from engine.models.residual import group_norm
from engine.models.tokens import require_fitting_tokens
from engine.simulation.simulate import Simulation
from tests.support.builders import federation, simulation
from tests.support.networks import model_of

TINY = {
    "resnet18": ((3, 8, 8), {"width": 4}),
    "resnet50": ((1, 8, 8), {"width": 2}),
    "wrn28_10": ((3, 8, 8), {"width": 1}),
    "cnn": ((1, 16, 16), {"hidden": 5}),
    "har_cnn": ((9, 30), {"hidden": 5}),
    "har_mlp": ((2, 6), {"hidden": 5}),
    "text_embedding": ((7,), {"buckets": 11, "dim": 4, "hidden": 5}),
    "char_lstm": ((7,), {"vocabulary": 11, "dim": 4, "hidden": 5}),
    "char_transformer": ((7,), {"vocabulary": 11, "dim": 4, "num_heads": 2}),
}
OF_IDS = ("text_embedding", "char_lstm", "char_transformer")


def samples(name: str, shape: tuple[int, ...], *lead: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    if name in OF_IDS:
        return torch.randint(0, 11, (*lead, *shape), generator=generator).double()
    return torch.randn(*lead, *shape, generator=generator, dtype=torch.float64)


def starts(model: Model, clients: int) -> dict[str, torch.Tensor]:
    """A different initial model for each client."""
    drawn = [model.initial(0, which) for which in range(clients)]
    return {n: torch.stack([p[n].double() for p in drawn]) for n in model.names}


@pytest.mark.parametrize(
    ("name", "shape", "classes", "published"),
    [
        ("resnet18", (3, 32, 32), 10, 11_173_962),
        ("resnet50", (3, 32, 32), 10, 23_520_842),
        ("wrn28_10", (3, 32, 32), 10, 36_479_194),
        ("wrn28_10", (3, 32, 32), 100, 36_536_884),
        ("har_cnn", (9, 128), 6, 9 * 9 * 32 + 32 + 9 * 32 * 64 + 64 + (64 * 26 + 1) * 512 + 513 * 6),
        ("text_embedding", (64,), 2, 20_000 * 32 + 33 * 32 + 33 * 2),
    ],
)
def test_a_network_has_the_published_number_of_parameters(name, shape, classes, published):
    with torch.device("meta"):
        assert model_of(name, shape, classes).num_parameters == published


@pytest.mark.parametrize("name", TINY)
def test_logits_are_the_head_on_the_features_of_the_body(name):
    shape, options = TINY[name]
    model = model_of(name, shape, classes=4, **options)
    params, x = {n: p[0] for n, p in starts(model, 1).items()}, samples(name, shape, 2)
    features = model.features(params, x)
    assert features.dim() == 2 and model.logits(params, x).shape == (2, 4)
    assert len(model.head) == 2 and set(model.body) | set(model.head) == set(model.names)
    assert torch.equal(model.head_logits(params, features), model.logits(params, x))


@pytest.mark.parametrize("name", TINY)
def test_networks_of_several_clients_agree_between_backends(name):
    shape, options = TINY[name]
    model = model_of(name, shape, **options)
    params = starts(model, 2)
    x, y = samples(name, shape, 2, 3), torch.tensor([[0, 1, 2], [2, 0, 0]])
    weight = torch.tensor([[1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0]], dtype=torch.float64)
    found = []
    for backend in (Loop(model), Batched(model)):
        out = {n: torch.zeros_like(p) for n, p in params.items()}
        losses = backend.accumulate(out, params, Batch(x, y, weight, (3, 2)), 1.0, 0.0)
        found.append(out | {"losses": losses, "logits": backend.logits(model, params, x)})
    for n, value in found[0].items():
        assert float(value.abs().max()) > 0, n
        torch.testing.assert_close(value, found[1][n], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "wrn28_10", "cnn"])
def test_gray_images_need_no_channel_dimension(name):
    options = TINY[name][1]
    with_channel, without = (model_of(name, shape, **options) for shape in ((1, 16, 16), (16, 16)))
    x = samples(name, (16, 16), 2)
    expected = with_channel.logits({n: p.double() for n, p in with_channel.initial(0).items()}, x[:, None])
    found = without.initial(0)
    assert torch.equal(without.logits({n: p.double() for n, p in found.items()}, x), expected)


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "wrn28_10"])
def test_a_sample_is_normalized_independently(name):
    shape, options = TINY[name]
    model = model_of(name, shape, **options)
    params, x = {n: p[0] for n, p in starts(model, 1).items()}, samples(name, shape, 3)
    torch.testing.assert_close(model.logits(params, x)[:1], model.logits(params, x[:1]))


@pytest.mark.parametrize(
    ("channels", "groups", "expected"), [(64, 32, 32), (16, 32, 8), (6, 32, 3), (48, 32, 24), (3, 32, 1), (64, 4, 4)]
)
def test_groups_have_equal_sizes_of_at_least_two_channels(channels, groups, expected):
    assert group_norm(channels, groups).num_groups == expected


def test_a_text_is_the_mean_of_its_tokens_without_padding():
    model = model_of("text_embedding", (4,), buckets=6, dim=3, hidden=2)
    embedding = model.module.body[0]
    x = torch.tensor([[1.0, 5.0, 0.0, 0.0], [2.0, 2.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    table = embedding.weight
    expected = torch.stack([(table[1] + table[5]) / 2, table[2], torch.zeros(3)])
    torch.testing.assert_close(embedding(x), expected)


@pytest.mark.parametrize("name", ["char_lstm", "char_transformer", "text_embedding"])
def test_token_ids_are_not_rounded_to_bfloat16(name: str):
    exact = model_of(name, (8,), classes=5)
    rounded = replace(exact, rounded_to=torch.bfloat16)
    ids, params = torch.arange(60, 76, dtype=torch.int32).view(2, 8), exact.initial(0)
    found, expected = rounded.logits(params, ids), exact.logits(params, ids)
    assert found.dtype == torch.float32 and not torch.equal(found, expected)
    torch.testing.assert_close(found, expected, rtol=0.03, atol=0.03)


def test_windows_are_only_convolved_along_time():
    model = model_of("har_cnn", (9, 128), classes=6)
    assert tuple(model.module.body[0].weight.shape) == (32, 9, 9)
    first, _, _, second, _, _, *rest = model.module.double().body
    x = samples("har_cnn", (9, 128), 4)
    for one in (first, second):
        plain = nn.Conv1d(one.in_channels, one.out_channels, 9).double()
        plain.load_state_dict(one.state_dict())
        x = F.max_pool1d(plain(x), 2).relu()
    x = nn.Sequential(*rest)(x)
    torch.testing.assert_close(model.module.body(samples("har_cnn", (9, 128), 4)), x)
    assert linear_chain(model_of("har_mlp", (561,), classes=6).module) is not None


@pytest.mark.parametrize(
    ("name", "shape", "way_out"),
    [
        ("resnet18", (60,), "use mlr or dnn"),
        ("wrn28_10", (2, 3, 8, 8), "cifar10"),
        ("har_cnn", (561,), "har_mlp"),
        ("har_cnn", (9, 27), "at least 28 time steps"),
        ("har_mlp", (3, 32, 32), "cnn or dnn"),
        ("text_embedding", (1, 8, 8), "amazon_review"),
    ],
)
def test_samples_of_another_shape_are_refused_with_advice(name, shape, way_out):
    with pytest.raises(Unsupported, match=way_out):
        model_of(name, shape)


IDS = torch.tensor([[3, 1, 0], [2, 0, 0]], dtype=torch.int32)


@pytest.mark.parametrize(
    ("name", "x", "way_out"),
    [
        ("mlr", IDS, "model: text_embedding, or representation: bag"),
        ("har_mlp", IDS, "model: text_embedding"),
        ("text_embedding", IDS.to(torch.uint8), "saved as int32 and not as uint8.*representation: tokens"),  # a bag
        ("text_embedding", IDS - 1.0, "mlr or dnn"),
        ("text_embedding", IDS / 2, "mlr or dnn"),
    ],
)
def test_only_token_ids_are_accepted_by_embeddings(name, x, way_out):
    with pytest.raises(Unsupported, match=way_out):
        require_fitting_tokens(model_of(name, (3,)), x)


def test_token_ids_of_data_sets_and_custom_files_fit_an_embedding():
    for x in (IDS, IDS.double()):
        require_fitting_tokens(model_of("text_embedding", (3,)), x)
    require_fitting_tokens(model_of("mlr", (3,)), IDS.double())


def test_token_ids_beyond_the_table_of_an_embedding_are_refused():
    require_fitting_tokens(model_of("text_embedding", (3,), buckets=4), IDS)
    for x in (IDS, IDS.double()):
        with pytest.raises(Unsupported, match="ids up to 3, and the model has buckets=3; set buckets: 4 under model"):
            require_fitting_tokens(model_of("text_embedding", (3,), buckets=3), x)


def test_an_embedding_has_as_many_rows_as_the_data_set_has_buckets():
    require_fitting_tokens(model_of("text_embedding", (3,), buckets=500), IDS, buckets=500)
    for rows in (20_000, 3):
        with pytest.raises(Unsupported, match=f"buckets=500, .* buckets={rows:,}; .*: set buckets: 500 under model"):
            require_fitting_tokens(model_of("text_embedding", (3,), buckets=rows), IDS, buckets=500)
    require_fitting_tokens(model_of("mlr", (3,)), IDS.to(torch.uint8), buckets=500)  # a bag


def test_a_run_with_mismatched_data_and_model_is_refused():
    config = {"dataset": "synthetic", "partition": "natural", "model": "text_embedding", "algorithms": ["fedavg"]}
    with pytest.raises(Unsupported, match="requires token ids"):
        Simulation(parse_experiment(config).runs()[0])


@pytest.mark.parametrize("name", MODELS.names())
def test_the_declared_number_of_layers_is_that_of_the_network(name: str) -> None:
    shape, options = TINY.get(name, ((1, 8, 8), {}))
    network = model_of(name, shape, 2, **options)
    entry = MODELS.get(name)
    assert len(network.layers) == entry.make(entry.options(**options)).num_layers


@pytest.mark.parametrize("name", ["cnn", "har_cnn", "resnet18", "resnet50", "wrn28_10"])
def test_networks_with_convolutions_know_their_largest_intermediate_result(name: str) -> None:
    shape, options = TINY[name]
    module = model_of(name, shape, 3, **options).module.double()
    sizes: list[int] = []
    for part in module.modules():
        part.register_forward_hook(lambda _, given, found: sizes.append(found.numel()))
    module(samples(name, shape, 1))
    assert module.widest == max(sizes)


def pooling_of(model: Model) -> list[bool]:
    """Whether each input of a max-pooling from now on has the channels last in memory, except of single samples."""
    found = list[bool]()

    def look(layer: nn.Module, given: tuple[torch.Tensor]) -> None:
        if len(given[0]) > 1:  # a task finds the width of features by one sample
            found.append(given[0].is_contiguous(memory_format=torch.channels_last))

    for layer in model.module.modules():
        if isinstance(layer, nn.MaxPool2d):
            layer.register_forward_pre_hook(look)
    return found


@pytest.mark.parametrize(("name", "shape"), [("cnn", (1, 20, 20)), ("cnn", (3, 20, 20)), ("har_cnn", (9, 30))])
def test_pooling_on_a_cpu_reads_whole_pixels(name: str, shape: tuple[int, ...]) -> None:
    model = model_of(name, shape)
    found = pooling_of(model)
    model.logits(model.laid_out(model.initial(0)), torch.rand(2, *shape))
    assert found == [True, True]


# Local steps and own models; losses of several models; features of one body; a body as received in each step.
@pytest.mark.parametrize("method", ["ditto", "ifca", "knn_per", "fedcp"])
def test_all_pooling_of_a_run_on_a_cpu_reads_whole_pixels(method: str) -> None:
    data = federation(features=256, shape=(1, 16, 16), dtype=torch.float32)
    run = simulation(method, data, model={"name": "cnn", "hidden": 5}, dtype="float32")
    found = pooling_of(run.task.model)
    for _ in run.rounds():
        pass
    assert found and all(found)


def test_the_order_of_kernels_in_memory_changes_no_result() -> None:
    model, x = model_of("cnn", (1, 20, 20)), torch.rand(2, 1, 20, 20)
    params = model.initial(0)
    torch.testing.assert_close(model.logits(model.laid_out(params), x), model.logits(params, x))


def test_kernels_stay_as_they_are_where_nothing_is_pooled() -> None:
    model = model_of("resnet18", (1, 8, 8), width=2)
    params = model.initial(0)
    assert model.laid_out(params) is params
