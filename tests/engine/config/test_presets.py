"""Presets: the shipped ones are valid, and invalid files are refused with a reason."""

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from engine.config.paper_tables import FOLDER
from engine.config.presets import Preset, load_preset, preset_names, presets
from engine.config.schema import Choice, ExperimentConfig, parse_experiment
from engine.core.errors import InvalidConfig, UnknownName
from engine.core.registry import PARTITIONERS
from engine.datasets import Pool

PAPERS = (
    "cgpfl-table1",
    "cgpfl-table2",
    "cgpfl-fig1-2",
    "cgpfl-fig3",
    "cgpfl-fig4-5",
    "plgu-table1-2",
    "plgu-table6-7",
    "plgu-table8-9",
    "plgu-fig1-6",
    "plgu-ablations",
    "plgu-fig7",
    "gpfl-fairness",
    "gpfl-features",
    "gpfl-overfitting",
    "fedprox-fig1",
    "fedprox-fig2",
)
STAND_INS = {  # samples and classes of data sets that may be absent: (whole pool, official training part)
    "mnist": (70_000, 60_000, 10),
    "fashion_mnist": (70_000, 60_000, 10),
    "cifar10": (60_000, 50_000, 10),
    "cifar100": (60_000, 50_000, 100),
    "tiny_imagenet": (110_000, 100_000, 200),
    "har": (10_299, 7_352, 6),
    "amazon_review": (8_000, 8_000, 2),
    "digits_domains": (4_500, 4_500, 10),  # with samples_per_domain=1500
    "pacs": (3_200, 3_200, 7),  # with samples_per_domain=800
    "office_caltech": (2_533, 2_533, 10),
}
NATURAL = {"har": 30, "amazon_review": 4, "digits_domains": 3, "pacs": 4, "office_caltech": 4}
EXPERIMENT = "{name: e, dataset: digits, partition: {name: iid}, model: mlr, algorithms: [fedavg]}"
SMALL = f"name: p\ntitle: t\nsource: s\nscales: {{quick: [{EXPERIMENT}]}}"
PAPER = (
    "paper: {{table: {}, methods: {{{}: fedavg}}, measures: {{accuracy: {}}}, experiments: {{{}: {{dataset: MNIST}}}}}}"
)


@pytest.mark.parametrize("name", preset_names())
def test_every_experiment_of_a_shipped_preset_is_valid_and_its_partition_possible(name: str) -> None:
    for experiment in experiments(load_preset(name)):
        assert experiment.runs()
        if experiment.dataset.name in STAND_INS:
            split(experiment.dataset, experiment.partition)


@pytest.mark.parametrize("name", PAPERS)
def test_every_reproduction_has_two_scales_and_describes_the_quick_one(name: str) -> None:
    preset = load_preset(name)
    assert set(preset.scales) == {"quick", "paper"}
    assert all((preset.document, preset.item, preset.shows, preset.cut))
    assert preset.paper or (preset.view and preset.view.note)


@pytest.mark.parametrize("name", [preset.name for preset in presets() if preset.paper])
def test_every_published_number_has_a_run_at_paper_scale(name: str) -> None:
    preset = load_preset(name)
    for config in preset.configs("paper"):
        labels = {entry.label for entry in parse_experiment(config).algorithms}
        assert {cell.label for cell in preset.cells(config["name"])} <= labels
    for config in preset.configs("quick"):
        cells = preset.cells(config["name"])
        assert not cells or {cell.label for cell in cells} & {e.label for e in parse_experiment(config).algorithms}


def test_every_published_number_has_a_preset() -> None:
    used: dict[str, int] = {}
    for preset in (load_preset(name) for name in PAPERS):
        for table in preset.paper:
            found = sum(len(table.cells(config["name"])) for config in preset.configs("paper"))
            used[table.file] = used.get(table.file, 0) + found
    for path in FOLDER.glob("*.csv"):
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        numbers = sum(
            column in ("accuracy", "mean", "lowest5", "top5") or "std" in column or "coeff" in column
            for column in rows[0]
        )
        assert used[path.name] == numbers * len(rows), path.name


def test_published_numbers_are_read_as_fractions_or_none() -> None:
    cells = load_preset("cgpfl-table1").cells("CGPFL Table 1, MNIST MLR")
    assert (cells[0].label, cells[0].model, cells[0].measure) == ("FedAvg", "personalized", "weighted_mean")
    assert cells[0].value == pytest.approx(0.8863)
    tiny = load_preset("plgu-table6-7").cells("PLGU Tables 6 and 7, Tiny ImageNet")
    unread = [cell for cell in tiny if cell.value is None]
    assert [(cell.table, cell.label, cell.measure) for cell in unread] == [("7", "pFedMe", "mean")]
    assert {cell.model for cell in tiny if cell.table == "6"} == {"global"}


def test_a_label_may_quote_its_row_and_mean_the_global_model() -> None:
    sweep = {cell.label for cell in load_preset("cgpfl-table2").cells("CGPFL Table 2, MNIST DNN")}
    assert "pFedMe lam=9" in sweep and "CGPFL-Heur lam=17" in sweep
    models = {(c.label, c.model) for c in load_preset("plgu-ablations").cells("PLGU ablation, rho, CIFAR-100")}
    assert {("PLGU-LF rho=0.5", "global"), ("PLGU-LF rho=0.5", "personalized")} < models


def test_a_figure_that_repeats_a_table_has_the_same_runs() -> None:
    table, figure = (
        {run.digest for e in experiments(load_preset(name)) for run in e.runs()}
        for name in ("plgu-table1-2", "plgu-fig1-6")
    )
    assert figure < table


def experiments(preset: Preset) -> list[ExperimentConfig]:
    return [parse_experiment(config) for scale in preset.scales for config in preset.configs(scale)]


@cache
def split(dataset: Choice, partition: Choice) -> None:
    """Raises ImpossiblePartition if the official numbers of labels cannot be partitioned this way."""
    everything, training, classes = STAND_INS[dataset.name]
    samples = training if getattr(dataset.options, "pool", "all") == "train" else everything
    clients = NATURAL.get(dataset.name)
    pool = Pool(
        np.zeros((samples, 1), np.float32),
        np.arange(samples) % classes,
        num_classes=classes,
        client=np.arange(samples) % clients if clients else None,
        class_names=tuple(map(str, range(classes))),
    )
    method = PARTITIONERS.get(partition.name).make(partition.options)
    assert len(method.split(pool, np.random.default_rng(0)).train) > 0


def test_a_preset_is_quick_by_default() -> None:
    preset = load_preset("cgpfl-mnist-main")
    assert preset.configs() == preset.configs("quick") != preset.configs("paper")


def test_every_preset_names_its_source() -> None:
    assert all(preset.describe()["paper"] and preset.title for preset in presets())


def test_a_misspelt_preset_suggests_the_closest_name() -> None:
    with pytest.raises(UnknownName, match="did you mean 'digits-first'"):
        load_preset("digit-first")


def test_an_unknown_scale_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"scale.*'paper'.*known: quick"):
        load_preset("digits-first").configs("paper")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: p\ntitle: t\nsource: s", "scales"),
        (f"name: other\ntitle: t\nsource: s\nscales: {{quick: [{EXPERIMENT}]}}", "must be the name of the file"),
        (f"title: t\nname: p\nscales: {{quick: [{EXPERIMENT}]}}", "source is missing"),
        (f"name: p\ntitle: t\nsource: s\nscales: {{quick: [{EXPERIMENT}, {EXPERIMENT}]}}", "must have its own name"),
        ("name: p\ntitle: t\nsource: s\nscales: {quick: 3}", "list of experiments"),
        ("name: p\ntitle: t\nsource: s\nscales: {slow: []}", "quick, paper or both"),
        (f"{SMALL}\ncut: 3", "cut: must be a string"),
        (f"{SMALL}\ncuts: less", "cuts: unknown key"),
        (f"{SMALL}\nview: {{tab: clusters}}", "must have a page and a note"),
        (
            f"{SMALL}\npaper: {{table: cgpfl_table1.csv}}",
            "must have exactly the keys experiments, measures, methods, table",
        ),
        (f"{SMALL}\n{PAPER.format('none.csv', 'FedAvg', 'mean', 'e')}", "is not a file in"),
        (f"{SMALL}\n{PAPER.format('cgpfl_table1.csv', 'FedAvgg', 'mean', 'e')}", "paper.methods: unknown FedAvgg;"),
        (f"{SMALL}\n{PAPER.format('cgpfl_table1.csv', 'FedAvg', 'median', 'e')}", "paper.measures: unknown median;"),
        (f"{SMALL}\n{PAPER.format('cgpfl_table1.csv', 'FedAvg', 'mean', 'f')}", "'f' is not an experiment"),
        (f"{SMALL}\n{PAPER.format('cgpfl_table1.csv', 'FedAvg', 'mean', 'e').replace('MNIST', 'MNST')}", "no row of"),
    ],
)
def test_an_invalid_preset_is_refused_with_a_reason(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(InvalidConfig, match=words):
        load_preset("p", tmp_path)
