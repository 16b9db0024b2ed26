"""Amazon reviews, on a few sentences in both supported formats, and the encoding of texts."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from engine.config.schema import parse_experiment
from engine.core.errors import DataUnavailable, Unsupported
from engine.datasets import Pool
from engine.datasets.amazon_review import DOMAINS, AmazonReview, AmazonReviewOptions
from engine.datasets.text import bags, bucket, terms, token_ids, words
from engine.models.text_embedding import TextEmbeddingOptions
from engine.partitioners.natural import Natural, NaturalOptions
from engine.simulation.simulate import Simulation

REVIEWS = {domain: [(0, f"Bad {domain}", "I don't like it"), (1, "Good", f"a good {domain}")] for domain in DOMAINS}


def save_lines(data_dir: Path) -> Path:
    (data_dir / "amazon_review").mkdir(parents=True)
    for domain, reviews in REVIEWS.items():
        lines = [json.dumps({"label": label, "title": title, "text": text}) for label, title, text in reviews]
        write_lines(data_dir, domain, lines)
    return data_dir


def write_lines(data_dir: Path, domain: str, lines: list[str]) -> None:
    (data_dir / "amazon_review" / f"{domain}.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))


def save_official(data_dir: Path, folder: str = "sorted_data_acl") -> Path:
    for domain, reviews in REVIEWS.items():
        home = data_dir / folder / ("kitchen_&_housewares" if domain == "kitchen" else domain)
        home.mkdir(parents=True)
        for (label, title, text), name in zip(reviews, ("negative", "positive"), strict=True):
            rating = f"<rating>\n{label}.0\n</rating>"
            block = f"<title>\n{title}\n</title>\n<review_text>\n{text}\n</review_text>"
            (home / f"{name}.review").write_text(f"<review>\n{rating}\n{block}\n</review>\n")
    return data_dir


def load(data_dir: Path, **options) -> Pool:
    return AmazonReview(AmazonReviewOptions(**options)).load(data_dir, np.random.default_rng(0))


def test_words_are_lower_case_without_punctuation_or_markup():
    assert words("I DON'T say &quot;no&quot;, 2 of 3...") == ["i", "don't", "say", "no", "2", "of", "3"]


def test_a_bigram_follows_its_first_word():
    assert list(terms("Not good at all", with_bigrams=True)) == [
        "not",
        "not good",
        "good",
        "good at",
        "at",
        "at all",
        "all",
    ]
    assert list(terms("", with_bigrams=True)) == []


def test_a_word_has_the_same_bucket_on_every_machine():
    assert bucket("good", 20_000) == 1 + 0x6C844E92 % 19_999  # CRC-32 of its bytes


def test_buckets_start_at_one_and_stay_below_the_limit():
    found = {bucket(str(number), 7) for number in range(200)}
    assert found == {1, 2, 3, 4, 5, 6}


def test_token_ids_keep_the_first_words_and_end_in_zeros():
    ids = token_ids([["a", "b", "c"], ["b"], []], buckets=100, max_length=2)
    a, b = bucket("a", 100), bucket("b", 100)
    assert ids.tolist() == [[a, b], [b, 0], [0, 0]]
    assert ids.dtype == np.int32


def test_a_bag_counts_words_up_to_255():
    counts = bags([["a", "b", "a"], ["a"] * 300, []], buckets=100)
    assert counts[0, [bucket("a", 100), bucket("b", 100)]].tolist() == [2, 1]
    assert counts.sum(axis=1).tolist() == [3, 255, 0]


def test_a_review_consists_of_title_and_text(tmp_path):
    pool = load(save_lines(tmp_path), max_length=8)
    expected = [bucket(word, 20_000) for word in ("bad", "books", "i", "don't", "like", "it")]
    assert pool.x[0].tolist() == [*expected, 0, 0]
    assert pool.y.tolist() == [0, 1] * 4
    assert pool.class_names == ("negative", "positive")


@pytest.mark.parametrize("folder", ["sorted_data_acl", "amazon_review"])
def test_the_official_files_give_the_same_data_as_json_lines(tmp_path, folder):
    official = load(save_official(tmp_path / "official", folder))
    assert official.fingerprint == load(save_lines(tmp_path / "lines")).fingerprint


def test_domains_are_the_natural_clients(tmp_path):
    pool = load(save_lines(tmp_path))
    assert pool.client.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    split = Natural(NaturalOptions(test_fraction=0)).split(pool, np.random.default_rng(0))
    assert [sorted(rows.tolist()) for rows in split.train] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_bags_contain_the_words_of_the_tokens(tmp_path):
    tokens, bag = (load(save_lines(tmp_path / name), representation=name, buckets=50) for name in ("tokens", "bag"))
    assert bag.x.shape == (8, 50)
    assert [np.bincount(row, minlength=50)[1:].tolist() for row in tokens.x] == bag.x[:, 1:].tolist()
    assert not bag.x[:, 0].any()


def test_bigrams_distinguish_texts_with_equal_words(tmp_path):
    plain, pairs = (load(save_lines(tmp_path / str(b)), representation="bag", bigrams=b) for b in (False, True))
    assert pairs.x[0].sum() == 2 * plain.x[0].sum() - 1


def test_token_ids_are_exact_as_floats_and_of_the_models_length():
    assert np.float32(AmazonReviewOptions(buckets=2**22).buckets - 1) == 2**22 - 1
    assert AmazonReviewOptions().buckets == TextEmbeddingOptions().buckets


def test_a_bag_with_too_many_buckets_is_refused():
    with pytest.raises(ValidationError, match="buckets=100,000 are too many for representation=bag"):
        AmazonReviewOptions(representation="bag", buckets=100_000)


def test_missing_reviews_are_reported_with_their_folder(tmp_path):
    assert not AmazonReview(AmazonReviewOptions()).present(tmp_path)
    with pytest.raises(DataUnavailable) as refusal:
        load(tmp_path)
    place = str(tmp_path / "amazon_review" / "books.jsonl.gz")
    assert all(word in str(refusal.value) for word in (place, "sorted_data_acl", "negative.review"))


def test_a_missing_domain_is_named(tmp_path):
    (save_lines(tmp_path) / "amazon_review" / "dvd.jsonl.gz").unlink()
    assert not AmazonReview(AmazonReviewOptions()).present(tmp_path)
    with pytest.raises(DataUnavailable, match=r"there is no .*dvd\.jsonl\.gz"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"label": 1, "title": "t", "text": ', "line 2"),
        ('{"label": 1, "title": "t"}', "line 2: it must be an object with a text"),
        ('{"label": 1, "text": null}', "line 2: it must be an object with a text"),
        ('{"label": 3, "title": "t", "text": "x"}', "label is 3, must be 0 or 1"),
        ("[1, 2]", "line 2: it must be an object"),
    ],
)
def test_an_invalid_line_is_reported_with_the_expected_format(tmp_path, line, words):
    write_lines(save_lines(tmp_path), "dvd", ['{"label": 1, "text": "fine without a title"}', line])
    with pytest.raises(DataUnavailable, match=rf"dvd\.jsonl\.gz, .*{words}.*Expected: a JSON object per line"):
        load(tmp_path)


def test_a_truncated_archive_is_named(tmp_path):
    path = save_lines(tmp_path) / "amazon_review" / "kitchen.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataUnavailable, match=r"kitchen\.jsonl\.gz"):
        load(tmp_path)


def test_a_file_without_reviews_is_refused(tmp_path):
    write_lines(save_lines(tmp_path), "dvd", [])
    with pytest.raises(DataUnavailable, match=r"dvd in .* has no reviews"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: text[:-12], "1 reviews begin and 0 end"),
        (lambda text: text.replace("review_text", "other"), "review 1 has no title or no review_text"),
    ],
)
def test_a_damaged_official_file_is_named(tmp_path, damage, words):
    path = save_official(tmp_path) / "sorted_data_acl" / "kitchen_&_housewares" / "positive.review"
    path.write_text(damage(path.read_text()))
    with pytest.raises(DataUnavailable, match=rf"positive\.review: {words}"):
        load(tmp_path)


def test_a_run_whose_model_has_other_buckets_is_refused(tmp_path: Path) -> None:
    config = {
        "dataset": {"name": "amazon_review", "buckets": 500},
        "partition": "natural",
        "model": "text_embedding",
        "algorithms": ["fedavg"],
    }
    with pytest.raises(Unsupported, match="buckets=500, and the model has buckets=20,000"):
        Simulation(parse_experiment(config).runs()[0], data_dir=save_lines(tmp_path))
