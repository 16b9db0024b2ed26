"""Digits from three sources: MNIST, USPS and MNIST-M as domains, at one size. The natural clients are the domains.

Three of the five domains of Digits-Five (Peng et al., ICCV 2019) with the sizes of FedBN (Li et al., ICLR 2021,
https://arxiv.org/abs/2102.07623): by default every domain has as many samples as the smallest, which is all of USPS.

Clients differ in their features, and somewhat in their labels: in USPS the classes' shares are from 7.6 % (class 8) to
16.7 % (class 0), in MNIST from 9.0 to 11.3 %, and in MNIST-M nearly as in MNIST. The files are those of the data sets
``mnist``, ``usps`` and ``mnist_m``. MNIST-M was made from MNIST: where enough samples remain, no digit is drawn for
both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from engine.core.registry import DATASETS, Count
from engine.datasets import Pool, Progress, mnist, mnist_m, usps
from engine.datasets.domains import DomainOptions, at_size, counts, domain_pool, drawn, in_color, in_gray
from engine.datasets.official import Part


class DigitsDomainsOptions(DomainOptions):
    samples_per_domain: Count | Literal["equal"] = Field(
        "equal",
        title="Samples per domain",
        description="At most this many of each domain, drawn at random, the same for all seeds; equal: as many as the "
        "smallest has.",
    )
    size: int = Field(28, ge=8, le=64, title="Size", description="Height and width of the images in pixels.")
    color: bool = Field(
        True,
        title="Color",
        description="Three channels, equal for gray domains; otherwise one, the luminance of color images.",
    )


@DATASETS.register(
    "digits_domains",
    title="Digits of three domains (MNIST, USPS, MNIST-M)",
    short="Digits of three domains",
    paper="Peng, Bai, Xia, Huang, Saenko, Wang. Moment Matching for Multi-Source Domain Adaptation. ICCV 2019; sizes "
    "after FedBN, ICLR 2021.",
)
@dataclass(frozen=True)
class DigitsDomains:
    options: DigitsDomainsOptions
    needs_download: ClassVar[bool] = False
    is_fixed: ClassVar[bool] = True  # all seeds read the same files, once per process
    files: ClassVar[tuple[str, ...]] = (*mnist.Mnist.files, *usps.Usps.files, *mnist_m.MnistM.files)

    def present(self, data_dir: Path) -> bool:
        return mnist.FILES.present(data_dir) and usps.present(data_dir) and mnist_m.present(data_dir)

    def memory(self, data_dir: Path) -> int:
        o = self.options
        used = sum(counts((70_000, 9_298, 68_002), o.samples_per_domain))
        read = (70_000 + 68_002 * 3) * 32 * 32
        return read + used * (3 if o.color else 1) * o.size**2 * (9 if o.standardize else 2)

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        """Raises DataUnavailable if a file of one of the domains is missing or invalid."""
        blended = mnist_m.parts(data_dir, progress)  # first: the others can be downloaded
        parts = {"MNIST": mnist.FILES.parts(data_dir, progress), "USPS": usps.parts(data_dir, progress)}
        parts["MNIST-M"] = blended
        rows, notes = self._rows(parts)
        domains = {}
        for i, (name, (train, test)) in enumerate(parts.items()):
            if progress is not None:
                progress(f"Resizing {name}", i / len(parts))
            x, y = np.concatenate([train.x, test.x])[rows[name]], np.concatenate([train.y, test.y])[rows[name]]
            colored = in_color if self.options.color else in_gray
            domains[name] = Part(colored(at_size(x, self.options.size)), y)
        return domain_pool(
            domains, mnist_m.CLASS_NAMES, scale=1 / 255, standardized=self.options.standardize, notes=notes
        )

    def _rows(self, parts: Mapping[str, tuple[Part, Part]]) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
        """The samples to use of each domain, as indices into its training part followed by its test part."""
        sizes = {name: len(train.y) + len(test.y) for name, (train, test) in parts.items()}
        number = dict(zip(sizes, counts(list(sizes.values()), self.options.samples_per_domain), strict=True))
        rows = {name: drawn(name, np.arange(sizes[name]), number[name]) for name in ("USPS", "MNIST-M")}
        digits = np.arange(sizes["MNIST"])
        unused = np.setdiff1d(digits, _as_mnist(rows["MNIST-M"], parts))
        is_enough = len(unused) >= number["MNIST"]
        rows["MNIST"] = drawn("MNIST", unused if is_enough else digits, number["MNIST"])
        note = "MNIST-M was made from MNIST: with these sizes, some digits are in both domains"
        return rows, () if is_enough else (note,)


def _as_mnist(rows: np.ndarray, parts: Mapping[str, tuple[Part, Part]]) -> np.ndarray:
    """The digits of MNIST in the samples ``rows`` of MNIST-M: image i of a part is digit i of that part."""
    blended, plain = len(parts["MNIST-M"][0].y), len(parts["MNIST"][0].y)
    return np.where(rows < blended, rows, rows - blended + plain)
