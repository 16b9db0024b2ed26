"""What the bodies of the clients' models make of their samples: features, drawn on a plane.

van der Maaten, Hinton. Visualizing Data using t-SNE. JMLR 2008. GPFL (Zhang et al.) shows its features so.

The features of a sample are what its own client's model hands to its head, conditions included; the network's body
where the method predicts without a head; the samples themselves where the body has no parameters. t-SNE is of their
first 50 principal components. Agreement and silhouette are of the features, not of the picture.
"""

import copy
from dataclasses import dataclass, replace

import numpy as np
import torch
from pydantic import Field
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.metrics import silhouette_score
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

from engine.algorithms import special_forward
from engine.analyses import AnalysisOptions
from engine.analyses.support.loaded_run import Subject
from engine.analyses.support.probes import DataName, data_of, finite
from engine.core.errors import Unsupported
from engine.core.findings import Findings
from engine.core.params import SharedParams
from engine.core.registry import ANALYSES
from engine.core.streams import key, numpy_stream

NEIGHBOURS = 10
_COMPONENTS = 50


class Options(AnalysisOptions):
    data: DataName = Field("test", title="Data", description="Test samples, or those trained on.")
    samples: int = Field(1000, ge=20, le=1500, title="Samples", description="Shared out evenly among the clients.")
    perplexity: float = Field(30.0, ge=2, le=200, title="Perplexity", description="Neighbours that t-SNE keeps near.")
    seed: int = Field(
        0, ge=0, le=1_000_000, title="Draw", description="Another number, other samples and another start of t-SNE."
    )


@ANALYSES.register("features", title="Features", paper="van der Maaten, Hinton, JMLR 2008")
@dataclass(frozen=True)
class Features:
    options: Options

    def compute(self, subject: Subject) -> Findings:
        """``tsne`` and ``pca`` [n, 2], ``label`` and ``client`` [n], and how far features tell classes and clients."""
        rows, clients = self._drawn(subject)
        data = data_of(subject, self.options.data)
        found = features_of(subject, data.features(rows), clients)
        labels = data.y[rows].cpu().numpy()
        if not np.isfinite(found).all():
            raise Unsupported("some features are not finite, so they have no distances; choose the best round")
        if not np.ptp(found, axis=0).any():
            raise Unsupported("all samples have the same features, so there is no picture; choose another round or run")
        width = found.shape[1]
        found = np.pad(found, ((0, 0), (0, max(0, 2 - width))))  # a picture has two axes
        subject.progress(0.2)
        with threadpool_limits(limits=1):
            pca = PCA(min(_COMPONENTS, *found.shape), svd_solver="full").fit(found)
            components = pca.transform(found)
            subject.progress(0.3)
            tsne = self._tsne(components)
            measures = {"class": _told_apart(found, labels), "client": _told_apart(found, clients)}
        arrays = {
            "tsne": tsne,
            "pca": components[:, :2],
            "label": labels.astype(np.int32),
            "client": clients.astype(np.int32),
        }
        return Findings(
            {n: a.astype(np.float32) if a.dtype.kind == "f" else a for n, a in arrays.items()},
            {
                "round": subject.round,
                "data": self.options.data,
                "width": width,
                "are_inputs": not subject.task.model.body,
                "explained": pca.explained_variance_ratio_[:2].tolist(),
                **measures,
            },
        )

    def _drawn(self, subject: Subject) -> tuple[Tensor, np.ndarray]:
        """Rows of samples with their clients: as many of each client, of as many clients as there is room for."""
        data = data_of(subject, self.options.data)
        stream = numpy_stream(subject.config.seed, "drawn features", self.options.data, self.options.seed)
        sizes, offsets = data.sizes.cpu().numpy(), data.offsets.cpu().numpy()
        shuffled = stream.permutation(len(data.y))
        owner = np.repeat(np.arange(len(sizes)), sizes)[shuffled]
        turn = np.empty(len(shuffled), int)  # the how-manieth of its client
        turn[np.argsort(owner, kind="stable")] = np.arange(len(shuffled)) - offsets[:-1].repeat(sizes)
        rows = np.sort(shuffled[np.argsort(turn, kind="stable")[: self.options.samples]])
        if len(rows) <= NEIGHBOURS:
            raise Unsupported(f"{len(rows)} {self.options.data} samples are too few for a picture; choose other data")
        return torch.from_numpy(rows).to(data.y.device), np.searchsorted(offsets, rows, side="right") - 1

    def _tsne(self, components: np.ndarray) -> np.ndarray:
        perplexity = min(self.options.perplexity, (len(components) - 1) / 3)
        start = key(self.options.seed, "t-SNE") % 2**32
        scaled = components / np.abs(components).max()  # t-SNE knows no scale, and its single precision a small range
        return TSNE(perplexity=perplexity, init="pca", random_state=start, n_jobs=1).fit_transform(scaled)


def features_of(subject: Subject, x: Tensor, clients: np.ndarray) -> np.ndarray:
    """[n, F] features of samples, each under the model of its client."""
    parts: list[tuple[np.ndarray, Tensor]] = []
    for i, client in enumerate(np.unique(clients).tolist()):
        subject.progress(0.2 * i / len(subject.models.personalized))
        mine = np.flatnonzero(clients == client)
        with torch.no_grad():
            parts.append((mine, _given_to_head(subject, subject.models.personalized[client], x[mine])))
    order = np.argsort(np.concatenate([mine for mine, _ in parts]))
    return torch.cat([f.flatten(1) for _, f in parts]).double().cpu().numpy()[order]


def _given_to_head(subject: Subject, params: SharedParams, x: Tensor) -> Tensor:
    """What the head is given first, in the way the method predicts; the body's output where the head is not asked."""
    model = replace(subject.task.model, module=copy.deepcopy(subject.task.model.module))
    seen: list[Tensor] = []
    model.module.head.register_forward_pre_hook(lambda head, given: seen.append(given[0]))
    (special_forward(subject.algorithm, model) or model.logits)(params, x)
    return seen[0] if seen else model.features(params, x)


def _told_apart(features: np.ndarray, groups: np.ndarray) -> dict[str, float | None]:
    """How far features tell groups apart.

    ``agreement``: share of the nearest neighbours of a sample that are of its own group, ``chance``: the share among
    all others, ``silhouette``: from -1 to 1. None where there is one group alone.
    """
    _, sizes = np.unique(groups, return_counts=True)
    if len(sizes) < 2:
        return {"agreement": None, "chance": None, "silhouette": None}
    nearest = NearestNeighbors(n_neighbors=NEIGHBOURS, n_jobs=1).fit(features).kneighbors(return_distance=False)
    chance = (sizes * (sizes - 1)).sum() / (len(groups) * (len(groups) - 1))
    silhouette = silhouette_score(features, groups) if len(sizes) < len(groups) else np.nan
    return {
        "agreement": float((groups[nearest] == groups[:, None]).mean()),
        "chance": float(chance),
        "silhouette": finite(float(silhouette)),
    }
