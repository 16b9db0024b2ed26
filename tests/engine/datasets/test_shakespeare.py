"""Shakespeare, on short texts and in LEAF's format."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from engine.config.schema import parse_experiment
from engine.core.errors import DataUnavailable
from engine.datasets import Pool
from engine.datasets.shakespeare import ALPHABET, CLASS_NAMES, Shakespeare, ShakespeareOptions, encoded, windows
from engine.partitioners.natural import Natural, NaturalOptions
from engine.simulation.simulate import Simulation

SPEECHES = {"PHILO": ["abcdefghij", "klmnopqrs"], "CLEOPATRA": ["ABCDEFGHIJKLMNOPQRST"], "NO ONE": ["short"]}
SMALL = {"length": 3, "stride": 1, "min_chars": 10, "test_share": 0.3}


def save_roles(data_dir: Path, lines: list[str] | None = None) -> Path:
    (data_dir / "shakespeare").mkdir(parents=True)
    roles = [json.dumps({"play": "p", "role": role, "speeches": texts}) for role, texts in SPEECHES.items()]
    content = "\n".join(roles if lines is None else lines).encode()
    (data_dir / "shakespeare" / "roles.jsonl.gz").write_bytes(gzip.compress(content))
    return data_dir


def leaf_part(text: str) -> dict[str, list[str]]:
    return {"x": [text[i : i + 3] for i in range(len(text) - 3)], "y": list(text[3:])}


def save_leaf(data_dir: Path, **train: object) -> Path:
    texts = {"train": {"P_ONE": "abcdefghijklmn", "P_TWO": "ABCDEFG"}, "test": {"P_ONE": "opqrst", "P_TWO": "HIJKL"}}
    for part, users in texts.items():
        home = data_dir / "shakespeare" / "data" / part
        home.mkdir(parents=True)
        data = {user: leaf_part(text) for user, text in users.items()} | (train if part == "train" else {})
        (home / "all_data_niid.json").write_text(json.dumps({"users": list(data), "user_data": data}))
    return data_dir


def load(data_dir: Path, **options) -> Pool:
    return Shakespeare(ShakespeareOptions(**{**SMALL, **options})).load(data_dir, np.random.default_rng(0))


def spelled(ids: np.ndarray) -> str:
    return "".join(ALPHABET[i - 1] for i in ids)


def test_the_alphabet_is_leafs_and_other_characters_become_spaces():
    assert len(ALPHABET) == len(CLASS_NAMES) == len(set(CLASS_NAMES)) == 80
    assert encoded("\n az}é&").tolist() == [0, 1, 53, 78, 79, 1, 4]
    assert CLASS_NAMES[0] == "newline" and CLASS_NAMES[1] == "space" and CLASS_NAMES[53] == "a"


def test_a_window_precedes_the_character_to_predict():
    x, y = windows(np.arange(8, dtype=np.int32), length=3, stride=2)
    assert x.tolist() == [[1, 2, 3], [3, 4, 5], [5, 6, 7]]  # ids are places in the alphabet plus 1
    assert y.tolist() == [3, 5, 7]
    assert x.dtype == np.int32 and y.dtype == np.int64


def test_a_sample_is_a_text_and_its_next_character(tmp_path):
    pool = load(save_roles(tmp_path))
    assert pool.x.shape[1] == 3
    assert (spelled(pool.x[0]), CLASS_NAMES[pool.y[0]]) == ("abc", "d")
    text = "\n".join(SPEECHES["PHILO"])
    assert all(spelled(x) + ALPHABET[y] in text for x, y in zip(pool.x[pool.client == 0], pool.y, strict=False))


def test_roles_with_enough_text_are_the_natural_clients(tmp_path):
    pool = load(save_roles(tmp_path))
    assert sorted(set(pool.client.tolist())) == [0, 1]
    assert {spelled(x)[0].isupper() for x in pool.x[pool.client == 1]} == {True}


def test_test_characters_come_after_all_training_characters(tmp_path):
    pool = load(save_roles(tmp_path))
    own = pool.client == 1  # 20 characters, of which 6 are for testing
    train, test = pool.x[own & (pool.split == 0)], pool.x[own & (pool.split == 1)]
    assert (len(train), len(test)) == (14 - 3, 6 - 3)
    assert spelled(np.unique(train)) == "ABCDEFGHIJKLM"
    assert spelled(np.unique(test)) == "OPQRS"
    split = Natural(NaturalOptions()).split(pool, np.random.default_rng(0))
    assert [len(rows) for rows in split.test] == [3, 3]


def test_a_note_says_that_validation_windows_overlap_with_training_unless_the_stride_is_longer(tmp_path):
    save_roles(tmp_path)
    halved = Natural(NaturalOptions(val_fraction=0.4, min_samples=1))
    notes = {stride: halved.split(load(tmp_path, stride=stride), np.random.default_rng(0)).notes for stride in (3, 4)}
    assert "characters in common, and validation samples are drawn at random" in notes[3][1]
    assert not any("in common" in note for note in notes[4])


def test_a_stride_keeps_every_nth_character(tmp_path):
    save_roles(tmp_path)
    every, second = load(tmp_path), load(tmp_path, stride=2)
    first = every.x[(every.client == 1) & (every.split == 0)]
    assert second.x[(second.client == 1) & (second.split == 0)].tolist() == first[::2].tolist()


def test_leafs_files_keep_their_split_and_users(tmp_path):
    pool = load(save_leaf(tmp_path), min_chars=9)
    assert [spelled(x) for x in pool.x[:2]] == ["abc", "bcd"] and CLASS_NAMES[pool.y[0]] == "d"
    assert np.bincount(pool.client).tolist() == [11 + 3, 4 + 2]
    assert np.bincount(pool.split).tolist() == [15, 5]
    thinned = load(tmp_path, min_chars=9, stride=2)
    assert [spelled(x) for x in thinned.x[thinned.client == 1]] == ["ABC", "CDE", "HIJ"]


def test_leafs_users_with_little_text_are_left_out(tmp_path):
    pool = load(save_leaf(tmp_path), min_chars=12)
    assert set(pool.client.tolist()) == {0}
    assert spelled(pool.x[0]) == "abc"


def test_leafs_samples_of_another_length_are_refused(tmp_path):
    with pytest.raises(DataUnavailable, match="user P_ONE must have texts of length=4"):
        load(save_leaf(tmp_path), length=4)


@pytest.mark.parametrize("own", [{"x": ["abc"], "y": ["de"]}, {"x": ["abc"], "y": [4]}])
def test_leafs_labels_must_be_single_characters(tmp_path, own):
    with pytest.raises(DataUnavailable, match="user P_BAD must have one character as each label"):
        load(save_leaf(tmp_path, P_BAD=own))


def test_texts_that_are_too_short_are_refused_with_advice(tmp_path):
    with pytest.raises(DataUnavailable, match="no role has min_chars=500 characters"):
        load(save_roles(tmp_path), min_chars=500)
    with pytest.raises(DataUnavailable, match="length=19"):
        load(tmp_path, length=19)


def test_missing_data_are_reported_with_their_path(tmp_path):
    assert not Shakespeare(ShakespeareOptions()).present(tmp_path)
    with pytest.raises(DataUnavailable) as refusal:
        load(tmp_path)
    assert all(word in str(refusal.value) for word in (str(tmp_path / "shakespeare" / "roles.jsonl.gz"), "LEAF"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "Expecting"),
        ("[1]", "must be an object with speeches"),
        ('{"speeches": "text"}', "must be an object with speeches"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, line, words):
    with pytest.raises(DataUnavailable, match=rf"roles\.jsonl\.gz, line 2: .*{words}.*Expected: a JSON object"):
        load(save_roles(tmp_path, ['{"speeches": []}', line]))


def test_a_truncated_file_is_named(tmp_path):
    path = save_roles(tmp_path) / "shakespeare" / "roles.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(DataUnavailable, match=r"roles\.jsonl\.gz, line \d+: "):
        load(tmp_path)


@pytest.mark.parametrize("model", [{"name": "char_lstm", "hidden": 4}, {"name": "char_transformer", "dim": 4}])
def test_clients_learn_their_texts_with_either_backend(tmp_path, monkeypatch, model):
    monkeypatch.setenv("DATA_DIR", str(save_roles(tmp_path)))
    found = []
    for backend in ("loop", "batched"):
        config = {
            "dataset": {"name": "shakespeare", **SMALL},
            "partition": "natural",
            "model": {"num_layers": 1, **model},
            "training": {"rounds": 2, "local_steps": 4, "batch_size": 4, "lr": 0.5, "dtype": "float64"},
            "algorithms": ["fedper"],
            "backend": backend,
        }
        (run,) = parse_experiment(config).runs()
        found.append([result.arrays["train_loss"].mean() for result in list(Simulation(run).rounds())[1:]])
    assert found[0][-1] < found[0][0]
    assert found[1] == pytest.approx(found[0], rel=1e-7)
