"""Reads untrusted tables, CSV or Parquet: a label column, optionally a client column, all others numeric.

Errors name column and row, counted as in a spreadsheet: the header is row 1. Both formats are read in blocks of rows,
so that only the numbers need memory, independent of the encoding of the file.
"""

import csv
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from engine.core.errors import suggestion

FIRST_ROW = 2
MAX_NAMED = 20
_BLOCK_VALUES = 2**20  # per block
_LONGEST_LINE = 1 << 24  # characters
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_QUOTED = 40  # characters of a value shown in a message
# What pandas reads as a missing value by default. In text only an empty cell is one: None or NA may be a class.
_MISSING = frozenset(
    ["", "NA", "N/A", "n/a", "#NA", "#N/A", "#N/A N/A", "<NA>", "NaN", "nan", "-NaN", "-nan", "None", "NULL", "null"]
).union(["1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"])
_BLANK = " \t"  # the characters of lines that pandas skips
BROKEN_TABLE = (OSError, ValueError, NotImplementedError, pa.ArrowException)  # parsing errors are ValueErrors


class BadRow(ValueError):
    """A mistake in a column of a row; the rows are counted without the blank lines of a file."""

    def __init__(self, column: str, row: int, mistake: str) -> None:
        self.column, self.row, self.mistake = column, row, mistake
        super().__init__(f"column {column}, row {row}: {mistake}")


@dataclass(frozen=True)
class Roles:
    """The roles of the columns. ``client`` is None if not given: then a column of that name is used, if any."""

    label: str
    client: str | None

    def find(self, columns: Sequence[str]) -> tuple[str | None, list[str]]:
        """(the client column, the features). Raises ValueError if a given column is missing."""
        for option, column in (("label", self.label), ("client", self.client)):
            if column is not None and column not in columns:
                raise ValueError(
                    f"column {column!r} is missing ({option}={column}){suggestion(column, columns)}; "
                    f"columns: {', '.join(columns[:MAX_NAMED])}"
                )
        client = self.client or ("client" if "client" in columns else None)
        return client, [column for column in columns if column not in (self.label, client)]


@dataclass
class Texts:
    """A column of labels or clients, encoded while reading: distinct values, and a code per row."""

    name: str
    codes: np.ndarray  # [M] int32, filled row by row
    numbers: dict[str, int] = field(default_factory=dict)

    def add(self, distinct: Iterable[Any], codes: np.ndarray, row: int) -> None:
        """Adds rows, starting at ``row``; a code below 0 is a missing value."""
        if (missing := np.flatnonzero(codes < 0)).size:
            raise _no_value(self.name, row + int(missing[0]))
        known = np.array([self.numbers.setdefault(str(value), len(self.numbers)) for value in distinct], np.int32)
        start = row - FIRST_ROW
        self.codes[start : start + len(codes)] = known[codes] if len(known) else 0

    def numbered(self, rows: int) -> tuple[np.ndarray, tuple[str, ...]]:
        """The index of each row's value among the sorted values, and these: as numbers if all of them are."""
        codes = self.codes[:rows]
        values = self._whole_numbers(codes)
        distinct: list[Any] = [*self.numbers] if values is None else [*values]
        place = {value: i for i, value in enumerate(sorted(set(distinct)))}  # 1 and 1.0 are equal
        return np.array([place[value] for value in distinct], np.int64)[codes], tuple(map(str, place))

    def _whole_numbers(self, codes: np.ndarray) -> list[int] | None:
        """The distinct values as numbers, or None if one is text. Raises ValueError for fractions."""
        texts = [*self.numbers]
        if all(map(_WHOLE.fullmatch, texts)):
            return [*map(int, texts)]
        found = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").to_numpy(np.float64)
        if (text := np.flatnonzero(np.isnan(found))).size:
            if len(text) < len(texts) and _MISSING.issuperset(texts[i] for i in text):  # a gap among numbers
                raise _no_value(self.name, int(np.flatnonzero(codes == text[0])[0]) + FIRST_ROW)
            return None
        if (odd := np.flatnonzero(~(np.abs(found) < 2**53) | (found != np.round(found)))).size:
            row = int(np.flatnonzero(codes == odd[0])[0]) + FIRST_ROW
            mistake = f"{texts[odd[0]]} is not a whole number; expected whole numbers or text"
            raise BadRow(self.name, row, mistake)
        return [*map(int, found)]


@dataclass(frozen=True)
class Table:
    """The samples of a table, with labels and clients numbered from 0."""

    arrays: dict[str, np.ndarray]  # x [M, F] float64, y [M], optionally client [M]
    names: dict[str, tuple[str, ...]]  # the original values of y and client


def read_csv(path: Path, roles: Roles, max_bytes: int) -> Table:
    """Reads a CSV file. Raises ValueError with the reason."""
    try:
        columns = _csv_columns(path)
        client, features = roles.find(columns)
        text = {name: str for name in (roles.label, client) if name is not None}
        missing = {name: [""] if name in text else _MISSING for name in columns}
        rows = max(1, _BLOCK_VALUES // len(columns))
        with pd.read_csv(
            path, chunksize=rows, index_col=False, dtype=text, na_values=missing, keep_default_na=False
        ) as blocks:
            found = _csv_blocks(blocks, roles.label, client, features)
            return _table(found, roles.label, client, (_most_rows(path, len(columns)), len(features)), max_bytes)
    except BadRow as bad:
        raise BadRow(bad.column, _row_with_blank_lines(path, bad.row), bad.mistake) from None
    except UnicodeDecodeError:
        raise ValueError(f"row {_undecodable_row(path)}: is not UTF-8; save the file as UTF-8") from None
    except pd.errors.EmptyDataError:
        raise ValueError("it is empty") from None
    except pd.errors.ParserError as error:
        raise ValueError(_parser_reason(str(error))) from None


def column_names(path: Path) -> list[str]:
    """The columns of a CSV or Parquet file, without reading its rows. Raises one of BROKEN_TABLE."""
    if path.suffix.lower() == ".parquet":
        return _parquet_columns(path)[1]
    return _csv_columns(path)


def csv_bytes(path: Path) -> int:
    """The memory for reading a CSV file, in bytes, from its size and number of commas."""
    commas, lines = _count(path)
    return _bytes_of(commas + lines + 1)


def read_parquet(path: Path, roles: Roles, max_bytes: int) -> Table:
    """Reads a Parquet file; checks the columns first. Raises ValueError with the reason."""
    schema, columns = _parquet_columns(path)
    client, features = roles.find(columns)
    if bad := [name for name in features if not _is_number(schema.field(name).type)]:
        kind = schema.field(bad[0]).type
        raise ValueError(f"column {bad[0]}: has {kind}, not numbers{_others(bad)}; encode or remove it")
    text = [name for name in (roles.label, client) if name and not _is_number(schema.field(name).type)]
    if bad := [name for name in text if _is_nested_or_binary(schema.field(name).type)]:
        raise ValueError(f"column {bad[0]}: has {schema.field(bad[0]).type}, not whole numbers or text; convert it")
    with parquet.ParquetFile(path, read_dictionary=text) as file:
        blocks = _parquet_blocks(file, [*features, *filter(None, (roles.label, client))], features)
        try:
            return _table(blocks, roles.label, client, (file.metadata.num_rows, len(features)), max_bytes)
        finally:
            pa.default_memory_pool().release_unused()


def parquet_bytes(path: Path) -> int:
    """The memory for reading a Parquet file, in bytes, from its metadata. Text is kept once per distinct value."""
    metadata = parquet.read_metadata(path)
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
    largest = max((chunk.total_uncompressed_size for chunk in chunks), default=0)
    packed = max(
        (sum(group.column(i).total_compressed_size for i in range(group.num_columns)) for group in groups), default=0
    )
    return _bytes_of(metadata.num_rows * metadata.num_columns) + largest + packed


def _bytes_of(values: int) -> int:
    """The memory for the numbers, before and after conversion, and for parsing one block, in bytes."""
    return 12 * values + 64 * min(values, _BLOCK_VALUES)


Block = tuple[np.ndarray, dict[str, tuple[Iterable[Any], np.ndarray]]]
"""Features [rows, F], and for each text column (distinct values, the code of each row)."""


def _table(blocks: Iterator[Block], label: str, client: str | None, shape: tuple[int, int], max_bytes: int) -> Table:
    """``shape`` is that of x, with the maximal number of rows."""
    if 8 * math.prod(shape) > max_bytes:
        raise ValueError(f"it unpacks to {8 * math.prod(shape):,} bytes, at most {max_bytes:,} are allowed")
    x = np.empty(shape)
    columns = {
        name: Texts(column, np.empty(shape[0], np.int32))
        for name, column in (("y", label), ("client", client))
        if column is not None
    }
    rows = 0
    for values, texts in blocks:
        x[rows : rows + len(values)] = values
        for column in columns.values():
            column.add(*texts[column.name], FIRST_ROW + rows)
        rows += len(values)
    if not rows:
        raise ValueError("it has no rows")
    numbered = {name: column.numbered(rows) for name, column in columns.items()}
    arrays = {"x": x[:rows], **{name: codes for name, (codes, _) in numbered.items()}}
    return Table(arrays, {name: names for name, (_, names) in numbered.items()})


def _csv_columns(path: Path) -> list[str]:
    _check_header(path)
    return [str(column) for column in pd.read_csv(path, nrows=0, index_col=False).columns]


def _csv_blocks(
    blocks: Iterable[pd.DataFrame], label: str, client: str | None, features: Sequence[str]
) -> Iterator[Block]:
    row = FIRST_ROW
    for block in blocks:
        x = np.empty((len(block), len(features)))
        for place, name in enumerate(features):
            x[:, place] = _numbers(block[name], row, features, block)
        texts = {}
        for name in filter(None, (label, client)):
            codes, distinct = pd.factorize(block[name])
            texts[name] = (distinct, codes)
        yield x, texts
        row += len(block)


def _numbers(column: pd.Series, row: int, features: Sequence[str], block: pd.DataFrame) -> np.ndarray:
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    if not np.isfinite(numbers).all():
        at = int(np.flatnonzero(~np.isfinite(numbers))[0])
        value, name = column.iloc[at], str(column.name)
        if pd.isna(value):
            raise _no_value(name, row + at)
        if np.isinf(numbers[at]):
            raise _not_finite(name, row + at, value)
        bad = [name for name in features if not pd.api.types.is_numeric_dtype(block[name])]
        mistake = f"{_quoted(value)} is not a number{_others(bad)}; encode or remove the column"
        raise BadRow(name, row + at, mistake)
    return numbers


def _parquet_columns(path: Path) -> tuple[pa.Schema, list[str]]:
    """The columns without those that pandas wrote as an index."""
    schema = parquet.read_schema(path)
    index = [name for name in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(name, str)]
    columns = [name for name in schema.names if name not in index]
    _check_names(columns)
    return schema, columns


def _parquet_blocks(file: parquet.ParquetFile, columns: list[str], features: Sequence[str]) -> Iterator[Block]:
    row = FIRST_ROW
    for batch in file.iter_batches(batch_size=max(1, _BLOCK_VALUES // len(columns)), columns=columns):
        x = np.empty((len(batch), len(features)))
        for place, name in enumerate(features):
            numbers = batch.column(name).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            if (bad := np.flatnonzero(~np.isfinite(numbers))).size:
                odd, at = batch.column(name)[int(bad[0])].as_py(), row + int(bad[0])
                raise _no_value(name, at) if odd is None else _not_finite(name, at, odd)
            x[:, place] = numbers
        yield x, {name: _encoded(batch.column(name)) for name in columns if name not in features}
        row += len(batch)


def _encoded(column: pa.Array) -> tuple[Iterable[Any], np.ndarray]:
    if not isinstance(column, pa.DictionaryArray):
        column = column.dictionary_encode()
    distinct = [None if value != value else value for value in column.dictionary.to_pylist()]  # NaN is a missing value
    codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    if None in distinct:
        codes = np.where(codes == distinct.index(None), -1, codes)
    return distinct, codes


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _is_nested_or_binary(kind: pa.DataType) -> bool:
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return is_binary or pa.types.is_nested(kind)


def _no_value(column: str, row: int) -> BadRow:
    return BadRow(column, row, "has no value; fill it or remove the row")


def _not_finite(column: str, row: int, value: object) -> BadRow:
    return BadRow(column, row, f"{value} is not finite; replace it or remove the row")


def _check_names(columns: Iterable[str]) -> None:
    if twice := [name for name, count in Counter(columns).items() if count > 1]:
        raise ValueError(f"two columns are named {_quoted(twice[0])}; rename one")


def _others(bad: Sequence[str]) -> str:
    named = ", ".join(bad[:MAX_NAMED])
    return f" (columns {named} are not numeric)" if len(bad) > 1 else ""


def _quoted(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…")


def _count(path: Path) -> tuple[int, int]:
    """The numbers of (commas, lines). Lines end with LF, CR LF, or CR alone, as on old Macs."""
    commas = lines = 0
    last = b""
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            commas += block.count(b",")
            lines += block.count(b"\n") + block.count(b"\r") - (last + block).count(b"\r\n")
            last = block[-1:]
    return commas, lines


def _most_rows(path: Path, num_columns: int) -> int:
    """An upper bound of the number of rows: each has a line, and a comma between any two columns."""
    return min(_count(path)[1] + 1, path.stat().st_size // num_columns + 1)


def _check_header(path: Path) -> None:
    """Rejects what pandas would change: it renames the second of two equal names, and cuts off a longer first row.

    Also an index, which ``to_csv`` writes as a first column without a name: row numbers tell the labels of sorted rows.
    """
    (_, header), *rest = [*islice(_records(path), 2)] or [(1, [])]
    _check_names(filter(None, header))  # pandas names columns without a name
    if len(header) > 1 and not header[0]:
        raise ValueError(
            "the first column has no name, so it looks like a row index; save the table without it (in pandas with "
            "index=False, in R with row.names=FALSE), or name the column"
        )
    for row, values in rest:
        if len(values) > len(header):
            raise ValueError(f"row {row}: has {len(values)} values, the header has {len(header)}")


def _row_with_blank_lines(path: Path, row: int) -> int:
    """The place of the ``row``-th row that is not blank, as counted in a spreadsheet."""
    return next(islice(_records(path), row - 1, None), (row, []))[0]


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, with their numbers in a spreadsheet."""
    row = 0
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:  # in text mode all line ends become LF
        try:
            for row, values in enumerate(csv.reader(_lines(file)), start=1):
                if len(values) > 1 or values == [""] or "".join(values).strip(_BLANK):  # "" in quotes is a value
                    yield row, values
        except csv.Error:  # the only one that text causes
            limit = csv.field_size_limit()
            raise ValueError(f"row {row + 1}: has a value of more than {limit:,} characters; shorten it") from None


def _lines(file: TextIO) -> Iterator[str]:
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise ValueError(f"a line has {_LONGEST_LINE:,} characters or more; expected a header and rows")
        yield line


def _undecodable_row(path: Path) -> int:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for row, line in enumerate(file, start=1):
            try:
                line.encode()
            except UnicodeEncodeError:
                return row
    return 1


def _parser_reason(message: str) -> str:
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message)
    return f"row {found[2]}: has {found[3]} values, the header has {found[1]}" if found else message
