"""Tiny ImageNet, on a few images in the official folder structure."""

import io
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.core.errors import DataUnavailable
from engine.datasets import Pool
from engine.datasets.official import OfficialOptions
from engine.datasets.tiny_imagenet import TinyImagenet

RED, GREEN, GREY = (200, 0, 0), (0, 200, 0), (90, 90, 90)
WORDS = "n01\tgoldfish, Carassius auratus\nn02\tcrane, bird\nn03\tcrane, machine\nn99\tnothing of ours\n"
ANNOTATIONS = "val_0.JPEG\tn02\t0\t32\t44\t62\nval_1.JPEG\tn01\t52\t55\t57\t59\n"


def jpeg(color: tuple[int, int, int], mode: str = "RGB", size: tuple[int, int] = (64, 64)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, color).convert(mode).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def save_release(data_dir: Path, **changed: bytes) -> Path:
    files = {
        "words.txt": WORDS.encode(),
        "train/n02/images/n02_0.JPEG": jpeg(GREEN),
        "train/n01/images/n01_0.JPEG": jpeg(RED),
        "train/n01/images/n01_1.JPEG": jpeg(GREY, "L"),
        "train/n03/images/n03_0.JPEG": jpeg(GREY),
        "train/n01/n01_boxes.txt": b"n01_0.JPEG\t0\t10\t63\t58\n",
        "val/val_annotations.txt": ANNOTATIONS.encode(),
        "val/images/val_0.JPEG": jpeg(GREEN),
        "val/images/val_1.JPEG": jpeg(RED),
        "test/images/test_0.JPEG": b"never read",
        **changed,
    }
    for name, content in files.items():
        path = data_dir / "tiny-imagenet-200" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return data_dir


def pack(data_dir: Path) -> Path:
    """Replaces the folder by its archive."""
    folder = data_dir / "tiny-imagenet-200"
    with zipfile.ZipFile(data_dir / "tiny-imagenet-200.zip", "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(data_dir).as_posix())
    shutil.rmtree(folder)
    return data_dir


def load(data_dir: Path, **options) -> Pool:
    return TinyImagenet(OfficialOptions(**options)).load(data_dir, np.random.default_rng(0))


def test_training_images_are_sorted_by_class_before_the_test_images(tmp_path):
    pool = load(save_release(tmp_path))
    assert pool.x.shape == (6, 3, 64, 64)
    assert pool.x.dtype == np.uint8
    assert pool.y.tolist() == [0, 0, 1, 2, 1, 0]
    expected = [RED, GREY, GREEN, GREY, GREEN, RED]
    assert np.abs(pool.x[:, :, 5, 5].astype(int) - np.array(expected)).max() <= 3  # JPEG is lossy
    assert pool.scale == 1 / 255


def test_classes_are_named_by_their_first_word_if_it_is_unique(tmp_path):
    assert load(save_release(tmp_path)).class_names == ("goldfish", "crane, bird", "crane, machine")


def test_without_words_classes_are_named_by_their_folders(tmp_path):
    (save_release(tmp_path) / "tiny-imagenet-200" / "words.txt").unlink()
    assert load(tmp_path).class_names == ("n01", "n02", "n03")


def test_the_archive_gives_the_same_data_as_the_folder(tmp_path):
    unpacked = load(save_release(tmp_path))
    assert load(pack(tmp_path)).fingerprint == unpacked.fingerprint
    assert load(tmp_path).class_names == unpacked.class_names


def test_the_test_images_can_be_the_common_test_set(tmp_path):
    pool = load(save_release(tmp_path), pool="train", common_test=True)
    assert pool.y.tolist() == [0, 0, 1, 2]
    assert pool.common_test[1].tolist() == [1, 0]


def test_reading_reports_progress(tmp_path):
    seen: list[tuple[str, float]] = []
    data = TinyImagenet(OfficialOptions())
    data.load(save_release(tmp_path), np.random.default_rng(0), lambda text, done: seen.append((text, done)))
    assert seen == [("Reading images", 0.0), ("Reading images", 0.0)]


def test_missing_images_are_reported_with_their_folder(tmp_path):
    assert not TinyImagenet(OfficialOptions()).present(tmp_path)
    with pytest.raises(DataUnavailable, match=r"there is no .*tiny-imagenet-200, nor .*\.zip; download"):
        load(tmp_path)


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("train/n01/images/n01_0.JPEG", jpeg(RED)[:300], r"n01_0\.JPEG is not a readable image"),
        ("train/n01/images/n01_0.JPEG", jpeg(RED, size=(32, 64)), r"n01_0\.JPEG has 32 x 64 pixels, not 64 x 64"),
        ("val/images/val_1.JPEG", b"", r"val_1\.JPEG is not a readable image"),
        ("val/val_annotations.txt", b"val_0.JPEG\tn02\nval_1.JPEG\tn07\n", r"val_annotations\.txt, line 2"),
        ("val/val_annotations.txt", b"val_0.JPEG n02\n", r"val_annotations\.txt, line 1"),
        ("val/val_annotations.txt", b"", r"val_annotations\.txt names no images"),
        ("val/val_annotations.txt", b"val_9.JPEG\tn02\n", r"val_9\.JPEG cannot be read"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, is_packed, name, content, words):
    save_release(tmp_path, **{name: content})
    with pytest.raises(DataUnavailable, match=rf"tiny-imagenet-200.*: .*{words}.*Expected: train/<class>/images"):
        load(pack(tmp_path) if is_packed else tmp_path)


def test_an_archive_cut_short_is_named(tmp_path):
    path = pack(save_release(tmp_path)) / "tiny-imagenet-200.zip"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataUnavailable, match=r"tiny-imagenet-200\.zip: cannot be read"):
        load(tmp_path)


def test_a_folder_without_training_images_is_refused(tmp_path):
    shutil.rmtree(save_release(tmp_path) / "tiny-imagenet-200" / "train")
    with pytest.raises(DataUnavailable, match="0 training images of 0 classes"):
        load(tmp_path)
