"""Amazon reviews: 8,000 product reviews from four domains, and whether each is positive (4-5 stars) or not (1-2).

Title and text are hashed by word (``engine.datasets.text``) into a row of bucket numbers for the model
``text_embedding``, or a bag of words for ``mlr`` and ``dnn``. The natural clients are the domains, which share the task
but use different words.
"""

import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from engine.core.errors import DataUnavailable
from engine.core.registry import DATASETS, Options
from engine.datasets import Pool, Progress
from engine.datasets.text import bags, terms, token_ids

DOMAINS = ("books", "dvd", "electronics", "kitchen")
CLASS_NAMES = ("negative", "positive")
FOLDERS = ("amazon_review", "sorted_data_acl")  # in DATA_DIR; the second is that of the official archive
OFFICIAL_NAMES = {"kitchen": "kitchen_&_housewares"}  # domains with another name in the official archive
MAX_BAG_BUCKETS = 2**16  # 8,000 reviews in as many buckets are 0.5 GB
_REVIEW = re.compile("<review>(.*?)</review>", re.DOTALL)
_FIELDS = tuple(re.compile(rf"<{name}>(.*?)</{name}>", re.DOTALL) for name in ("title", "review_text"))

Review = tuple[str, int]  # title and text, and its class


class AmazonReviewOptions(Options):
    advanced: ClassVar[tuple[str, ...]] = ("buckets", "max_length", "bigrams")

    representation: Literal["tokens", "bag"] = Field(
        "tokens",
        title="Representation",
        description="tokens: the ids of the first words in order, for the model text_embedding; bag: the counts of the "
        "hashed words.",
    )
    buckets: int = Field(
        20_000,
        ge=3,
        le=2**22,
        title="Buckets",
        description="Number of buckets for hashed words, including 0 for padding; must equal that of the model.",
    )
    max_length: int = Field(
        256,
        ge=1,
        le=4096,
        title="Length",
        description="Number of words used per review, including pairs with bigrams; a bag uses all.",
    )
    bigrams: bool = Field(False, title="Bigrams", description="Also hash pairs of consecutive words.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.representation == "bag" and self.buckets > MAX_BAG_BUCKETS:
            raise ValueError(
                f"buckets={self.buckets:,} are too many for representation=bag, at most "
                f"{MAX_BAG_BUCKETS:,}; lower buckets, or use representation=tokens"
            )
        return self


@DATASETS.register(
    "amazon_review",
    title="Amazon reviews",
    paper="Blitzer, Dredze, Pereira. Biographies, Bollywood, Boom-boxes and Blenders: Domain Adaptation for Sentiment "
    "Classification. ACL 2007.",
)
@dataclass(frozen=True)
class AmazonReview:
    options: AmazonReviewOptions
    needs_download: ClassVar[bool] = False
    is_fixed: ClassVar[bool] = True  # all seeds read the same files, once per process
    files: ClassVar[tuple[str, ...]] = tuple(
        f"{folder}/{name}" for folder in FOLDERS for name in ("*.jsonl.gz", "*/*.review")
    )

    def present(self, data_dir: Path) -> bool:
        return all(_reader(domain, data_dir) is not None for domain in DOMAINS)

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        """Raises DataUnavailable if a file is missing or invalid."""
        reviews: list[Review] = []
        client: list[int] = []
        for i, domain in enumerate(DOMAINS):
            if progress is not None:
                progress(f"Reading reviews of {domain}", i / len(DOMAINS))
            reviews += _reviews_of(domain, data_dir)
            client += [i] * (len(reviews) - len(client))
        y = np.array([label for _, label in reviews], np.int64)
        return Pool(
            self._features([text for text, _ in reviews]),
            y,
            num_classes=2,
            client=np.array(client, np.int64),
            class_names=CLASS_NAMES,
        )

    def _features(self, texts: list[str]) -> np.ndarray:
        o = self.options
        found = [terms(text, o.bigrams) for text in texts]
        return token_ids(found, o.buckets, o.max_length) if o.representation == "tokens" else bags(found, o.buckets)


def _reviews_of(domain: str, data_dir: Path) -> list[Review]:
    read = _reader(domain, data_dir)
    if read is None:
        first, official = (data_dir / folder for folder in FOLDERS)
        raise DataUnavailable(
            f"there is no {first / domain}.jsonl.gz, nor the official {official / _official(domain)} with "
            "negative.review and positive.review; put the files of all four domains "
            f"({', '.join(DOMAINS)}) into {first}, unpack the official archive into {data_dir}, or set DATA_DIR"
        )
    found = list(read())
    if not found:
        raise DataUnavailable(f"{domain} in {data_dir} has no reviews; unpack its files again")
    return found


def _reader(domain: str, data_dir: Path) -> Callable[[], Iterator[Review]] | None:
    packed = data_dir / FOLDERS[0] / f"{domain}.jsonl.gz"
    if os.path.isfile(packed):
        return lambda: _read_lines(packed)
    for folder in (data_dir / top / name for top in FOLDERS for name in (domain, _official(domain))):
        paths = [folder / f"{name}.review" for name in CLASS_NAMES]
        if all(os.path.isfile(path) for path in paths):
            return lambda: (review for label, path in enumerate(paths) for review in _read_official(path, label))
    return None


def _official(domain: str) -> str:
    return OFFICIAL_NAMES.get(domain, domain)


def _read_lines(path: Path) -> Iterator[Review]:
    """Reads one JSON object per line: label, title, text."""
    done = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield _review_of(json.loads(line))
                done += 1
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataUnavailable(
            f"{path}, line {done + 1}: {error}. Expected: a JSON object per line with label (0 negative, 1 positive), "
            "title and text, packed by gzip"
        ) from error


def _review_of(line: Any) -> Review:
    """Raises ValueError with the reason."""
    if not isinstance(line, dict) or not isinstance(line.get("text"), str):
        raise ValueError("it must be an object with a text")
    if line.get("label") not in (0, 1):
        raise ValueError(f"label is {line.get('label')!r}, must be 0 or 1")
    return f"{line.get('title') or ''}\n{line['text']}", int(line["label"])


def _read_official(path: Path, label: int) -> Iterator[Review]:
    """``<review> ... <title> ... </title> ... <review_text> ... </review_text> </review>``, one after another."""
    try:
        content = path.read_text(encoding="utf-8", errors="replace")  # a few bytes of the release are not UTF-8
    except OSError as error:
        raise DataUnavailable(f"{path}: cannot be read ({error}); unpack the official archive again") from error
    blocks = _REVIEW.findall(content)
    if len(blocks) != content.count("<review>"):
        raise DataUnavailable(
            f"{path}: {content.count('<review>')} reviews begin and {len(blocks)} end; unpack the "
            "official archive again"
        )
    for number, block in enumerate(blocks, start=1):
        found = [field.search(block) for field in _FIELDS]
        if None in found:
            raise DataUnavailable(
                f"{path}: review {number} has no title or no review_text; unpack the official archive again"
            )
        yield "\n".join(match[1].strip() for match in found if match is not None), label
