"""The user's own files: what is read, and that every mistake is reported with the expected format."""

import io
import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

from engine.core.errors import DataUnavailable
from engine.datasets import Pool
from engine.datasets.custom import Custom, CustomOptions
from engine.datasets.image_folder import pixels

X = np.arange(12.0).reshape(6, 2)
Y = np.array([0, 1, 2, 0, 1, 2])


def load(path: Path, data_dir: Path = Path("nowhere"), **options) -> Pool:
    return Custom(CustomOptions(path=str(path), **options)).load(data_dir, np.random.default_rng(0))


def npz(folder: Path, **arrays) -> Path:
    np.savez(folder / "own.npz", **{"x": X, "y": Y, **arrays})
    return folder / "own.npz"


def csv(folder: Path, text: str) -> Path:
    (folder / "own.csv").write_text(text)
    return folder / "own.csv"


def test_arrays_are_read_unchanged(tmp_path):
    pool = load(npz(tmp_path, client=[0, 0, 0, 1, 1, 1], split=[0, 0, 1, 0, 0, 1]))
    assert pool.x.dtype == np.float64
    assert (pool.x == X).all()
    assert pool.scale == 1.0
    assert pool.y.tolist() == Y.tolist()
    assert pool.client.tolist() == [0, 0, 0, 1, 1, 1]
    assert pool.split.tolist() == [0, 0, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("uint8", "uint8"),
        ("float32", "float32"),
        ("float16", "float32"),
        ("bool", "float32"),
        ("int64", "float64"),
        (">f8", "float64"),
    ],
)
def test_numbers_are_stored_in_the_smallest_type(tmp_path, given, stored):
    assert load(npz(tmp_path, x=X.astype(given))).x.dtype == np.dtype(stored)


def test_pixels_of_an_npz_are_scaled_and_a_table_of_small_numbers_is_not(tmp_path):
    images = np.full((6, 2, 2), 255, np.uint8)
    for x in (images, images[:, None]):
        pool = load(npz(tmp_path, x=x))
        assert (pool.x.dtype, pool.scale) == (np.uint8, 1 / 255)
        assert load(npz(tmp_path, x=x), standardize=True).scale == 1
    assert load(npz(tmp_path, x=images[:, 0])).scale == load(npz(tmp_path, x=images.astype(np.int16))).scale == 1


def test_images_with_the_channels_last_are_refused_with_advice(tmp_path):
    images = np.zeros((6, 8, 8, 3), np.uint8)
    with pytest.raises(DataUnavailable, match=r"\[6, 8, 8, 3\], with the channels last; .*np\.moveaxis\(x, -1, 1\)"):
        load(npz(tmp_path, x=images))
    assert load(npz(tmp_path, x=np.moveaxis(images, -1, 1))).x.shape == (6, 3, 8, 8)
    assert load(npz(tmp_path, x=np.zeros((6, 3, 8, 3)))).x.shape == (6, 3, 8, 3)


def test_labels_and_clients_are_numbered_in_sorted_order(tmp_path):
    pool = load(npz(tmp_path, y=["cat", "ant", "cat", "bee", "ant", "bee"], client=[9, 9, 5, 5, 7, 7]))
    assert pool.y.tolist() == [2, 0, 2, 1, 0, 1]
    assert pool.class_names == ("ant", "bee", "cat")
    assert pool.client.tolist() == [2, 2, 0, 0, 1, 1]


def test_features_are_standardized_over_the_training_samples(tmp_path):
    pool = load(npz(tmp_path, split=[0, 0, 0, 0, 1, 1]), standardize=True)
    assert np.allclose(pool.x[:4].mean(axis=0), 0)
    assert np.allclose(pool.x[:4].std(axis=0), 1)
    assert pool.x[4:].min() > 1


def test_a_table_has_a_label_column_and_an_optional_client_column(tmp_path):
    pool = load(csv(tmp_path, "a,kind,b,who\n1,x,2,ann\n3,y,4,bob\n5,x,6,ann\n"), label="kind", client="who")
    assert pool.x.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert pool.y.tolist() == pool.client.tolist() == [0, 1, 0]
    assert pool.class_names == ("x", "y")


def test_a_column_named_client_is_used_by_default(tmp_path):
    assert load(csv(tmp_path, "a,label,client\n1,0,8\n2,1,9\n")).client.tolist() == [0, 1]


def test_parquet_is_read_like_csv(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0], "label": ["n", "y"]}).to_parquet(tmp_path / "own.parquet")
    pool = load(tmp_path / "own.parquet")
    assert pool.x.tolist() == [[1], [2]]
    assert pool.class_names == ("n", "y")


def test_a_relative_path_is_searched_in_the_data_folder_first(tmp_path, monkeypatch):
    npz(tmp_path)
    assert len(load(Path("own.npz"), data_dir=tmp_path).x) == 6
    monkeypatch.chdir(tmp_path)
    assert Custom(CustomOptions(path="own.npz")).present(Path("elsewhere"))
    assert len(load(Path("own.npz")).x) == 6


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": X[:, 0]}, r"x has shape \[6\]"),
        ({"x": np.empty((6, 0))}, r"x has shape \[6, 0\]"),
        ({"x": X.astype(complex)}, "dtype complex128"),
        ({"x": X.astype(str)}, "x has dtype"),
        ({"x": np.where(X == 3, np.nan, X)}, r"x\[1, 1\] is nan \(1 values of x are NaN"),
        ({"y": Y[:5]}, r"y has shape \[5\] and x has 6 samples"),
        ({"y": np.eye(6)}, r"y has shape \[6, 6\]"),
        ({"y": np.where(Y == 2, 0.5, Y)}, r"y\[2\] is 0\.5; y has values that are missing or not whole"),
        ({"y": np.zeros(6)}, "single class"),
        ({"client": [0, 1]}, r"client has shape \[2\]"),
        ({"split": [1, 1, 1, 1, 1, 1]}, "split has no 0"),
        ({"y": np.array(["a", "b\0c"] * 3)}, r"class 'b\\x00c', with a character that cannot be stored"),
        ({"y": np.array(["a", "\ud800"] * 3)}, r"class '\\ud800', with a character that cannot be stored"),
        ({"split": [0, 1, 2, 0, 1, 2]}, "split has values other than"),
        ({"y": np.array(["a", None] * 3, dtype=object)}, "allow_pickle=False"),
    ],
)
def test_an_invalid_array_is_refused_with_the_expected_format(tmp_path, arrays, words):
    with pytest.raises(DataUnavailable, match=f"(?s)own.npz: .*{words}.*Expected: arrays x"):
        load(npz(tmp_path, **arrays))


def test_an_npz_without_labels_is_refused(tmp_path):
    np.savez(tmp_path / "own.npz", x=X)
    with pytest.raises(DataUnavailable, match="array y is missing"):
        load(tmp_path / "own.npz")


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut"])
def test_a_file_other_than_an_npz_is_refused(tmp_path, content):
    (tmp_path / "own.npz").write_bytes(content)
    with pytest.raises(DataUnavailable, match=r"own\.npz"):
        load(tmp_path / "own.npz")


def test_a_truncated_archive_is_refused(tmp_path):
    path = npz(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataUnavailable, match=r"own\.npz"):
        load(path)


def npz_with_header(folder: Path, header: str) -> Path:
    """Writes an archive whose x has this text as the header of its array."""
    text = header.encode() + b"\n"
    stored = io.BytesIO()
    np.save(stored, Y)
    with zipfile.ZipFile(folder / "own.npz", "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text + bytes(100))
        archive.writestr("y.npy", stored.getvalue())
    return folder / "own.npz"


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'shape': (3,",
        "{[]: 1}",
        "{1: 1, 'a': 2}",
        "{'descr': (), 'shape': (3,), 'fortran_order': False}",
        "{'descr': [('a', '<f4', 1, 2)], 'shape': (3,), 'fortran_order': False}",
        "{'descr': 5, 'shape': (3,), 'fortran_order': False}",
        "a\n    b\n  c",
        "(" * 500,
    ],
)
def test_an_array_with_a_damaged_header_is_refused(tmp_path, header):
    path = npz_with_header(tmp_path, header)
    assert memory(path) > 0
    with pytest.raises(DataUnavailable, match=r"own\.npz: .*Expected: arrays x"):
        load(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_compressed_array_is_refused(tmp_path, method):
    stored = io.BytesIO()
    np.save(stored, np.random.default_rng(0).random((100, 2)))
    with zipfile.ZipFile(tmp_path / "own.npz", "w", method) as archive:
        archive.writestr("x.npy", stored.getvalue())
    content = bytearray((tmp_path / "own.npz").read_bytes())
    content[44:80] = b"\xff" * 36  # behind the header of the member and the properties of LZMA
    (tmp_path / "own.npz").write_bytes(content)
    assert memory(tmp_path / "own.npz") > 0
    with pytest.raises(DataUnavailable, match=r"own\.npz: .*Expected: arrays x"):
        load(tmp_path / "own.npz")


def test_a_file_larger_than_the_limit_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = npz(tmp_path, x=np.zeros((6, 1000)))
    monkeypatch.setattr("engine.datasets.custom.MAX_BYTES", 30_000)
    with pytest.raises(DataUnavailable, match="at most 30,000"):
        load(path)


def test_a_table_too_large_for_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    pd.DataFrame({"a": np.zeros(100_000), "label": np.zeros(100_000)}).to_parquet(tmp_path / "own.parquet")
    assert (tmp_path / "own.parquet").stat().st_size < 30_000
    monkeypatch.setattr("engine.datasets.custom.MAX_BYTES", 30_000)
    with pytest.raises(DataUnavailable, match="unpacks to 800,000 bytes, at most 30,000"):
        load(tmp_path / "own.parquet")


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", {}, "it is empty"),
        ("a,labels\n1,0\n2,1\n", {}, "did you mean 'labels'"),
        ("a,label\n1,0\n2,1\n", {"client": "who"}, "client=who"),
        ("age,label\n1,0\n2,1\nabc,1\n", {}, "column age, row 4: 'abc' is not a number"),
        (
            "a,b,c,label\n1,x,y,0\n2,x,y,1\n",
            {},
            r"column b, row 2: 'x' is not a number \(columns b, c are not numeric\)",
        ),
        ("a,label\n" + "1,0\n" * 70_000 + "x,1\n", {}, "column a, row 70002: 'x'"),
        (f"a,label\n{'x' * 1000},0\n2,1\n", {}, "row 2: 'x{40}…' is not a number"),
        ("a,label\n1,0\n,1\n", {}, "column a, row 3: has no value"),
        ("a,label\n1,0\n-inf,1\n", {}, "column a, row 3: -inf is not finite"),
        ("a,label\n1,\n2,1\n", {}, "column label, row 2: has no value"),
        ("a,label\n1,x\n2,\n", {}, "column label, row 3: has no value"),
        ("a,label\n1,0\n2,1.5\n", {}, "column label, row 3: 1.5 is not a whole number"),
        ("a,label,who\n1,0,ann\n2,1,\n", {"client": "who"}, "column who, row 3: has no value"),
        ("a,label\n1,0\n2,1,3\n", {}, "row 3: has 3 values, the header has 2"),
        ("a,label\n1,0,5\n2,1,3\n", {}, "row 2: has 3 values, the header has 2"),
        (f"a,{'b' * 200_000},label\n1,2,0\n", {}, "row 1: has a value of more than 131,072 characters; shorten it"),
        (f"a,label\n1,{'b' * 200_000}\n", {}, "row 2: has a value of more than 131,072 characters; shorten it"),
        ("a,label\r1,0\r2,1,3\r", {}, "row 3: has 3 values, the header has 2"),
        ("a,label\r1,0,5\r2,1,3\r", {}, "row 2: has 3 values, the header has 2"),
        ("a,label\n1,0\nNA,1\n", {}, "column a, row 3: has no value"),
        ("a,label\n1,0\n2,NaN\n", {}, "column label, row 3: has no value"),
        ("a,label,label\n1,0,7\n2,1,8\n", {}, "two columns are named 'label'; rename one"),
        ("a,who,label,who\n1,7,0,7\n2,8,1,8\n", {"client": "who"}, "two columns are named 'who'; rename one"),
        ('\ufeff"a",label,a\n1,0,7\n2,1,8\n', {}, "two columns are named 'a'; rename one"),
        ("a,label\n\n1,0,5\n2,1,3\n", {}, "row 3: has 3 values, the header has 2"),
        ("\na,label\n \t\n\n1,0,5\n2,1,3\n", {}, "row 5: has 3 values, the header has 2"),
        ("a,label\n1,0\n\n2,1,3\n", {}, "row 4: has 3 values, the header has 2"),
        ("label\n0\n1\n", {}, r"x has shape \[2, 0\]"),
        ("a,label\n", {}, "no rows"),
    ],
)
def test_an_invalid_table_is_refused_with_the_expected_format(tmp_path, text, options, words):
    with pytest.raises(DataUnavailable, match=f"(?s)own.csv: .*{words}.*Expected: a header"):
        load(csv(tmp_path, text), **options)


def test_blank_lines_of_a_table_are_skipped(tmp_path):
    pool = load(csv(tmp_path, "\na,b,label\n\n1,2,0\n \t\n3,4,1\n\n"))
    assert pool.x.tolist() == [[1, 2], [3, 4]] and pool.y.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("x,0", "column a, row 7: 'x' is not a number"),
        ("inf,0", "column a, row 7: inf is not finite"),
        (",0", "column a, row 7: has no value"),
        ("3,", "column label, row 7: has no value"),
        ("3,nan", "column label, row 7: has no value"),
        ("3,1.5", "column label, row 7: 1.5 is not a whole number"),
        ('3,""', "column label, row 7: has no value"),
    ],
)
def test_rows_are_counted_as_in_a_spreadsheet_with_blank_lines(tmp_path, row, words):
    with pytest.raises(DataUnavailable, match=words):
        load(csv(tmp_path, f"\na,label\n\n1,0\n2,1\n \n{row}\n"))


def test_several_columns_of_a_table_may_have_no_name(tmp_path):
    pool = load(csv(tmp_path, "a,,,label\n1,2,3,0\n4,5,6,1\n"))
    assert pool.x.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("index", [None, ["x", "y"]])
def test_an_index_that_pandas_wrote_is_refused_as_a_feature(tmp_path, index):
    pd.DataFrame({"a": [0.5, 1.5], "label": [0, 1]}, index=index).to_csv(tmp_path / "own.csv")
    with pytest.raises(DataUnavailable, match=r"first column has no name.*index=False.*name the column"):
        load(tmp_path / "own.csv")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("own.csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not a CSV file; it looks like a PNG image"),
        ("own.csv", b"PK\x03\x04\x14\0", "not a CSV file; it looks like a ZIP archive"),
        ("own.csv", b"PAR1\0", "not a CSV file; it looks like a Parquet file"),
        ("own.csv", "a,label\n1,0\n".encode("utf-16"), "not a CSV file; it looks like UTF-16 text"),
        ("own.csv", b"a\0b", "not a CSV file; it looks like binary data"),
        ("own.csv", b"a,label\n1,caf\xe9\n", "row 2: is not UTF-8"),
        ("own.csv", b"a,label\r1,x\r2,caf\xe9\r", "row 3: is not UTF-8"),
        ("own.parquet", b"a,label\n1,0\n", "not a Parquet file; it looks like text"),
        ("own.npz", b"\x93NUMPY\x01\0", "not an NPZ file; it looks like a NumPy array"),
    ],
)
def test_a_file_with_a_wrong_suffix_is_refused_with_its_real_type(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataUnavailable, match=words):
        load(tmp_path / name)


def test_special_files_are_not_opened(tmp_path):
    os.mkfifo(tmp_path / "own.csv")
    with pytest.raises(DataUnavailable, match="must be a regular file"):
        load(tmp_path / "own.csv")


@pytest.mark.parametrize(
    ("labels", "names", "y"),
    [
        (["10", "9", "9"], ("9", "10"), [1, 0, 0]),  # numbers in numerical order
        (["10", "9", "a"], ("10", "9", "a"), [0, 1, 2]),  # texts in alphabetical order
        (["1.0", "2", "1"], ("1", "2"), [0, 1, 0]),
        (["True", "False", "True"], ("False", "True"), [1, 0, 1]),
        (
            ["12345678901234567", "12345678901234568", "12345678901234567"],
            ("12345678901234567", "12345678901234568"),
            [0, 1, 0],
        ),
    ],
)
def test_labels_of_a_table_are_numbers_if_all_of_them_are(tmp_path, labels, names, y):
    pool = load(csv(tmp_path, "a,label\n" + "".join(f"1,{label}\n" for label in labels)))
    assert (pool.class_names, pool.y.tolist()) == (names, y)


@pytest.mark.parametrize("ends", ["\n\n\n\n\n", "\r\r\r\r\r", "\n\n\r\r\r", "\r\r\n\n\n", "\n\r\n\r\n"])
def test_lines_of_a_table_may_end_as_on_old_macs(tmp_path, monkeypatch, ends):
    lines = ["a,b,label", "1,2,0", "3,4,1", "5,6,0", "7,8,1"]
    text = "".join(line + end for line, end in zip(lines, ends, strict=True))
    (tmp_path / "own.csv").write_bytes(text.encode())
    for block in (4, 2**20):
        monkeypatch.setattr("engine.datasets.table._BLOCK_VALUES", block)
        pool = load(tmp_path / "own.csv")
        assert pool.x.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]] and pool.y.tolist() == [0, 1, 0, 1]
    assert columns(tmp_path / "own.csv") == ("a", "b", "label")
    (tmp_path / "plain.csv").write_bytes(text.replace("\r", "\n").encode())
    assert memory(tmp_path / "own.csv") == memory(tmp_path / "plain.csv")


def test_lines_that_end_as_on_windows_count_once(tmp_path, monkeypatch):
    rows = "a,label\r\n" + "1,0\r\n2,1\r\n" * 200_000  # more than one block of bytes
    (tmp_path / "own.csv").write_bytes(rows.encode())
    (tmp_path / "plain.csv").write_bytes(rows.replace("\r", "").encode())
    assert memory(tmp_path / "own.csv") == memory(tmp_path / "plain.csv")


@pytest.mark.parametrize("name", ["NA", "None", "null", "nan", "N/A", "NULL"])
def test_classes_and_clients_may_have_names_that_stand_for_missing_numbers(tmp_path, name):
    pool = load(csv(tmp_path, f"a,client,label\n1,{name},{name}\n2,z,z\n3,z,{name}\n"))
    assert pool.class_names == (name, "z") and pool.y.tolist() == [0, 1, 0] and pool.client.tolist() == [0, 1, 1]
    alone = load(csv(tmp_path, f"a,label\n1,{name}\n2,-nan\n"))
    assert set(alone.class_names) == {name, "-nan"}


def test_a_table_does_not_depend_on_the_block_size(tmp_path, monkeypatch):
    rows = [f"{i / 7},{i % 5},{'xyz'[i % 3]}{i % 2}" for i in range(50)]
    path = csv(tmp_path, "a,client,label\n" + "\n".join(rows))
    pd.read_csv(path).to_parquet(tmp_path / "own.parquet")
    whole = load(path)
    monkeypatch.setattr("engine.datasets.table._BLOCK_VALUES", 9)
    for again in (load(path), load(tmp_path / "own.parquet")):
        assert again.fingerprint == whole.fingerprint and again.class_names == whole.class_names


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (["x", "y"], "column b: has .*string, not numbers"),
        ([1.0, None], "column b, row 3: has no value"),
        ([np.inf, 1.0], "column b, row 2: inf is not finite"),
    ],
)
def test_an_invalid_column_of_a_parquet_file_is_named(tmp_path, column, words):
    pd.DataFrame({"a": [1, 2], "b": column, "label": [0, 1]}).to_parquet(tmp_path / "own.parquet")
    with pytest.raises(DataUnavailable, match=words):
        load(tmp_path / "own.parquet")


@pytest.mark.parametrize(("label", "kind"), [([[0], [1]], "list<"), ([b"cat", b"dog"], "binary")])
def test_a_nested_or_binary_label_of_a_parquet_file_is_named(tmp_path, label, kind):
    pd.DataFrame({"a": [1.0, 2.0], "label": label}).to_parquet(tmp_path / "own.parquet")
    with pytest.raises(DataUnavailable, match=rf"column label: has {kind}.*not whole numbers or text"):
        load(tmp_path / "own.parquet")


def test_values_whose_squares_are_infinite_are_not_standardized(tmp_path):
    x = X.copy()
    x[3, 1] = -1e160
    with pytest.raises(DataUnavailable, match="x has values up to ±1e\\+160, too large to standardize"):
        load(npz(tmp_path, x=x), standardize=True)


def test_text_of_a_parquet_file_is_refused_before_it_is_read(tmp_path, monkeypatch):
    pd.DataFrame({"a": ["x", "y"], "label": [0, 1]}).to_parquet(tmp_path / "own.parquet")
    monkeypatch.setattr("pyarrow.parquet.ParquetFile.iter_batches", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(DataUnavailable, match="not numbers"):
        load(tmp_path / "own.parquet")


def test_a_parquet_file_is_read_without_its_index(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "label": pd.Categorical(["n", "y"])}, index=[7, 9])
    frame.to_parquet(tmp_path / "own.parquet")
    pool = load(tmp_path / "own.parquet")
    assert pool.x.tolist() == [[1], [2]] and pool.class_names == ("n", "y")


def test_repeated_text_is_stored_once(tmp_path):
    """These clients would take 800 MB as padded text, and 200 MB as separate strings."""
    rows, long = 20_000, "x" * 10_000
    frame = pd.DataFrame({"a": np.zeros(rows), "label": [0, 1] * (rows // 2), "client": [long, "y"] * (rows // 2)})
    frame.to_parquet(tmp_path / "own.parquet")
    del frame
    tracemalloc.start()
    pool = load(tmp_path / "own.parquet")
    peak = tracemalloc.get_traced_memory()[1] + pa.default_memory_pool().bytes_allocated()
    tracemalloc.stop()
    assert pool.client.tolist() == [0, 1] * (rows // 2)
    assert peak < 100e6


def test_too_many_classes_suggest_another_column(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.datasets.custom.MAX_CLASSES", 2)
    with pytest.raises(DataUnavailable, match="y has 3 different values, at most 2 classes"):
        load(npz(tmp_path))


def test_a_class_name_that_a_backup_cannot_have_is_refused(tmp_path):
    assert len(load(csv(tmp_path, f"a,label\n1,x\n2,{'y' * 200}\n")).class_names[1]) == 200
    with pytest.raises(DataUnavailable, match=r"class 'yyy.*201 characters; at most 200 are allowed; use shorter"):
        load(csv(tmp_path, f"a,label\n1,x\n2,{'y' * 201}\n"))
    with pytest.raises(DataUnavailable, match="300 characters"):
        load(npz(tmp_path, y=np.array(["x", "y" * 300] * 3)))


def test_running_out_of_memory_while_reading_is_reported_with_advice(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise pa.lib.ArrowMemoryError("malloc of size 5000000000 failed")

    pd.DataFrame({"a": [1.0, 2.0], "label": [0, 1]}).to_parquet(tmp_path / "own.parquet")
    monkeypatch.setattr("pyarrow.parquet.ParquetFile.iter_batches", refuse)
    with pytest.raises(DataUnavailable, match=r"out of memory; use fewer rows"):
        load(tmp_path / "own.parquet")


def memory(path: Path, **options) -> int:
    return Custom(CustomOptions(path=str(path), **options)).memory(path.parent)


def test_the_memory_of_a_file_is_estimated_without_reading_it(tmp_path):
    rows, values = 5_000, 5_000 * 8
    x = np.random.default_rng(0).standard_normal((rows, 8))
    frame = pd.DataFrame(x).assign(label=np.arange(rows) % 2)
    frame.to_csv(tmp_path / "own.csv", index=False)
    frame.rename(columns=str).to_parquet(tmp_path / "own.parquet")
    np.savez(tmp_path / "own.npz", x=x, y=np.arange(rows) % 2)
    for kind in ("csv", "parquet", "npz"):
        assert 2 * 8 * values < memory(tmp_path / f"own.{kind}") < 16 * 8 * values
    assert memory(tmp_path / "own.npz", standardize=True) == 2 * memory(tmp_path / "own.npz")


def test_the_memory_of_compressed_files_is_their_unpacked_size(tmp_path):
    np.savez_compressed(tmp_path / "own.npz", x=np.zeros((10_000, 100), np.int8), y=np.zeros(10_000))
    assert (tmp_path / "own.npz").stat().st_size < 10_000
    assert memory(tmp_path / "own.npz") > 10_000 * 100 * 8
    pd.DataFrame({"a": np.zeros(100_000), "label": np.zeros(100_000)}).to_parquet(tmp_path / "own.parquet")
    assert (tmp_path / "own.parquet").stat().st_size < 30_000
    assert memory(tmp_path / "own.parquet") > 100_000 * 2 * 8


def test_estimating_a_damaged_file_reports_the_mistake(tmp_path):
    (tmp_path / "own.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataUnavailable, match=r"own\.parquet"):
        memory(tmp_path / "own.parquet")


def image_folder(folder: Path, **images: Image.Image) -> Path:
    """Writes ``cat_1=image`` to cat/1.png."""
    for name, image in images.items():
        label, number = name.split("_")
        (folder / "own" / label).mkdir(parents=True, exist_ok=True)
        image.save(folder / "own" / label / f"{number}.png")
    return folder / "own"


def grey(value: int, size: tuple[int, int] = (3, 2)) -> Image.Image:
    return Image.new("L", size, value)


def test_a_folder_of_gray_images_has_one_channel_and_one_class_per_folder(tmp_path):
    pool = load(image_folder(tmp_path, cat_1=grey(10), ant_1=grey(255), ant_2=grey(20)))
    assert pool.x.shape == (3, 1, 2, 3)
    assert pool.x[:, 0, 0, 0].tolist() == [255, 20, 10]
    assert pool.scale == 1 / 255
    assert pool.class_names == ("ant", "cat")
    assert pool.y.tolist() == [0, 0, 1]


def test_hidden_and_system_folders_are_not_classes(tmp_path):
    folder = image_folder(tmp_path, a_1=grey(10), b_1=grey(20))
    for name in (".ipynb_checkpoints", "__MACOSX"):
        (folder / name).mkdir()
        grey(30).save(folder / name / "1.png")
    (folder / "a" / "._1.png").write_bytes(b"attributes of a file on macOS")
    assert load(folder).class_names == ("a", "b")


@pytest.mark.parametrize("is_standardized", [False, True])
def test_reading_a_folder_of_images_stays_within_the_estimate(tmp_path, is_standardized):
    image = Image.new("RGB", (24, 24))
    folder = image_folder(tmp_path, **{f"{label}_{i}": image for label in "ab" for i in range(100)})
    load(folder)  # Pillow imports its formats
    tracemalloc.start()
    load(folder, standardize=is_standardized)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= memory(folder, standardize=is_standardized) <= 3 * peak


def test_one_color_image_makes_all_images_color(tmp_path):
    pool = load(image_folder(tmp_path, a_1=grey(10), b_1=Image.new("RGB", (3, 2), (1, 2, 3))))
    assert pool.x[:, :, 0, 0].tolist() == [[10, 10, 10], [1, 2, 3]]


def test_images_of_different_sizes_are_refused(tmp_path):
    with pytest.raises(DataUnavailable, match=r"b/1\.png has 4 x 4 pixels, others 3 x 2"):
        load(image_folder(tmp_path, a_1=grey(10), b_1=grey(10, size=(4, 4))))


@pytest.mark.parametrize("keep", [20, 45])
def test_a_damaged_image_is_named(tmp_path, keep):
    folder = image_folder(tmp_path, a_1=grey(10), b_1=grey(10))
    path = folder / "b" / "1.png"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataUnavailable, match=r"b/1\.png is not a readable image"):
        load(folder)


@pytest.mark.parametrize(
    ("values", "suffix"),
    [
        (np.array([[0, 20000], [40000, 65535]], np.uint16), "png"),
        (np.array([[0, 20000], [40000, 65535]], np.uint16), "pgm"),
        (np.array([[0, 20000], [40000, 65535]], ">u2"), "tiff"),
        (np.array([[0, 1], [70000, -1]], np.int32), "tiff"),
        (np.array([[0, 1], [0.5, 0.25]], np.float32), "tiff"),
    ],
)
def test_images_with_more_than_8_bits_are_refused_instead_of_cut_off(tmp_path, values, suffix):
    folder = image_folder(tmp_path, b_1=grey(10, size=(2, 2)))
    (folder / "a").mkdir()
    path = folder / "a" / f"1.{suffix}"
    Image.fromarray(values).save(path)
    words = rf"a/1\.{suffix} has 16-bit or floating-point pixels; save it with 8 bits per channel, or use an NPZ file"
    with pytest.raises(DataUnavailable, match=words):
        load(folder)
    with pytest.raises(ValueError, match=words):
        pixels(path, f"a/1.{suffix}", "RGB")


def test_black_and_white_images_become_gray(tmp_path):
    pool = load(image_folder(tmp_path, a_1=Image.new("1", (3, 2), 1), b_1=Image.new("1", (3, 2), 0)))
    assert pool.x[:, 0, 0, 0].tolist() == [255, 0]


def test_a_folder_without_images_is_refused(tmp_path):
    with pytest.raises(DataUnavailable, match=r"no images in class folders.*Expected: one folder per class"):
        load(tmp_path)


def test_images_beyond_the_limit_are_refused_before_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.datasets.custom.MAX_BYTES", 11)
    with pytest.raises(DataUnavailable, match="unpack to 12 bytes"):
        load(image_folder(tmp_path, a_1=grey(10), b_1=grey(10)))


@pytest.mark.parametrize("path", ["/nowhere/own.npz", "~nobody-of-that-name/own.npz", "a" * 300 + "own.npz"])
def test_a_missing_file_is_named(path):
    with pytest.raises(DataUnavailable, match=r"there is no .*own\.npz"):
        load(Path(path))


def test_an_unknown_file_type_is_refused(tmp_path):
    (tmp_path / "own.pkl").write_bytes(b"")
    with pytest.raises(DataUnavailable, match=r"'\.pkl'; known: \.npz"):
        load(tmp_path / "own.pkl")


def columns(path: Path) -> tuple[str, ...] | None:
    return Custom(CustomOptions(path=str(path))).columns(Path("nowhere"))


def test_the_columns_of_a_table_are_read_without_its_rows(tmp_path):
    assert columns(csv(tmp_path, "age,label,hospital\n1,0,oops\n")) == ("age", "label", "hospital")
    pd.DataFrame({"age": [1], "label": [0]}).to_parquet(tmp_path / "own.parquet")
    assert columns(tmp_path / "own.parquet") == ("age", "label")


def test_arrays_and_broken_tables_have_no_columns(tmp_path):
    assert columns(npz(tmp_path)) is None
    assert columns(csv(tmp_path, "")) is None
    assert columns(csv(tmp_path, f"{'a' * 200_000},label\n1,0\n")) is None
    assert columns(tmp_path / "absent.csv") is None
