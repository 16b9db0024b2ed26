"""Encodes texts without a vocabulary: each word is hashed into one of a fixed number of buckets.

The hash is CRC-32, identical on all machines. Buckets are numbered from 1; 0 means no word.
"""

import html
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise

import numpy as np

MAX_COUNT = 255  # the largest uint8
_WORD = re.compile(r"\w+(?:'\w+)*")


def words(text: str) -> list[str]:
    """Lower-case words; ``don't`` is one word, ``&quot;`` none."""
    return _WORD.findall(html.unescape(text).lower())


def terms(text: str, with_bigrams: bool) -> Iterator[str]:
    """The words, each followed by its bigram if ``with_bigrams``."""
    found = words(text)
    if not with_bigrams:
        yield from found
        return
    for first, second in pairwise(found):
        yield first
        yield f"{first} {second}"
    yield from found[-1:]


def bucket(term: str, buckets: int) -> int:
    """1..buckets-1"""
    return 1 + zlib.crc32(term.encode()) % (buckets - 1)


def token_ids(texts: Sequence[Iterable[str]], buckets: int, max_length: int) -> np.ndarray:
    """[M, max_length] int32: the buckets of a text's first terms in order, padded with 0."""
    ids = np.zeros((len(texts), max_length), np.int32)
    for row, text in zip(ids, texts, strict=True):
        found = [bucket(term, buckets) for term in islice(text, max_length)]
        row[: len(found)] = found
    return ids


def bags(texts: Sequence[Iterable[str]], buckets: int) -> np.ndarray:
    """[M, buckets] uint8: the number of terms of a text in each bucket."""
    counts = np.zeros((len(texts), buckets), np.uint8)
    for row, text in zip(counts, texts, strict=True):
        found = np.array([bucket(term, buckets) for term in text], np.int64)
        row[:] = np.minimum(np.bincount(found, minlength=buckets), MAX_COUNT)
    return counts
