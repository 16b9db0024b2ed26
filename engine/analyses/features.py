"""Features of the clients' samples, as computed by the models' bodies, projected to two dimensions.

van der Maaten, Hinton. Visualizing Data using t-SNE. JMLR 2008. GPFL (Zhang et al.) shows features this way.

The features of a sample are the input of the head in its own client's model, conditions included; the output of the
network's body if the method predicts without a head; the sample itself if the body has no parameters. t-SNE uses their
first 50 principal components. Agreement and silhouette refer to the features, not to the projection.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from threadpoolctl import threadpool_limits
from torch import Tensor

from engine.algorithms import special_forward
from engine.analyses import AnalysisOptions
from engine.analyses.support.layouts import Count, Layout, Values
from engine.analyses.support.loaded_run import Subject
from engine.analyses.support.probes import DataName, data_of
from engine.core.errors import Unsupported
from engine.core.findings import Findings
from engine.core.json_values import finite
from engine.core.params import SharedParams
from engine.core.registry import ANALYSES
from engine.core.streams import key, numpy_stream

NEIGHBORS = 10
_COMPONENTS = 50


class Options(AnalysisOptions):
    data: DataName = Field("test", title="Data", description="Test samples, or those trained on.")
    samples: int = Field(
        1000, ge=20, le=1500, title="Samples", description="Number of samples, divided evenly among the clients."
    )
    perplexity: float = Field(
        30.0, ge=2, le=200, title="Perplexity", description="Roughly the number of neighbors that t-SNE considers."
    )
    seed: int = Field(
        0, ge=0, le=1_000_000, title="Draw", description="Seed of the choice of samples and of the start of t-SNE."
    )


Share = Annotated[float, Field(ge=-1, le=1)]


class Separation(Values):
    agreement: Share | None
    chance: Share | None
    silhouette: Share | None


class FeatureValues(Values):
    round: Count
    data: DataName
    width: Count
    are_inputs: bool
    explained: Annotated[list[float], Field(min_length=2, max_length=2)]
    by_class: Annotated[Separation, Field(alias="class")]
    client: Separation


@ANALYSES.register("features", title="Features", paper="van der Maaten, Hinton, JMLR 2008")
@dataclass(frozen=True)
class Features:
    options: Options

    @staticmethod
    def layout(params: Mapping[str, Any]) -> Layout:
        return Layout(
            {"tsne": "M 2", "pca": "M 2", "label": "M", "client": "M"},
            below={"label": "C", "client": "N"},
            values=FeatureValues,
        )

    def compute(self, subject: Subject) -> Findings:
        """``tsne`` and ``pca`` [n, 2], ``label`` and ``client`` [n], and how well they separate classes and clients."""
        from sklearn.decomposition import PCA  # slow to import, as all of scikit-learn

        rows, clients = self._draw_rows(subject)
        data = data_of(subject, self.options.data)
        found = features_of(subject, data.features(rows), clients)
        labels = data.labels(rows).cpu().numpy()
        if not np.isfinite(found).all():
            raise Unsupported("some features are not finite; choose the best round")
        if not np.ptp(found, axis=0).any():
            raise Unsupported("all samples have equal features; choose another round or run")
        width = found.shape[1]
        found = np.pad(found, ((0, 0), (0, max(0, 2 - width))))  # the plot has two axes
        subject.progress(0.2)
        with threadpool_limits(limits=1):
            pca = PCA(min(_COMPONENTS, *found.shape), svd_solver="full").fit(found)
            components = pca.transform(found)
            subject.progress(0.3)
            tsne = self._tsne(components)
            measures = {"class": _separation(found, labels), "client": _separation(found, clients)}
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

    def _draw_rows(self, subject: Subject) -> tuple[Tensor, np.ndarray]:
        """Draws rows and their clients: equally many per client, of as many clients as the limit allows."""
        data = data_of(subject, self.options.data)
        stream = numpy_stream(subject.config.seed, "drawn features", self.options.data, self.options.seed)
        sizes, offsets = data.sizes.cpu().numpy(), data.offsets.cpu().numpy()
        shuffled = stream.permutation(data.num_samples)
        owner = np.repeat(np.arange(len(sizes)), sizes)[shuffled]
        turn = np.empty(len(shuffled), int)  # index within its client
        turn[np.argsort(owner, kind="stable")] = np.arange(len(shuffled)) - offsets[:-1].repeat(sizes)
        rows = np.sort(shuffled[np.argsort(turn, kind="stable")[: self.options.samples]])
        if len(rows) <= NEIGHBORS:
            raise Unsupported(f"{len(rows)} {self.options.data} samples are too few; choose other data")
        return torch.from_numpy(rows).to(data.rows.device), np.searchsorted(offsets, rows, side="right") - 1

    def _tsne(self, components: np.ndarray) -> np.ndarray:
        from sklearn.manifold import TSNE

        perplexity = min(self.options.perplexity, (len(components) - 1) / 3)
        start = key(self.options.seed, "t-SNE") % 2**32
        scaled = components / np.abs(components).max()  # t-SNE is scale-free, and its float32 has a small range
        return TSNE(perplexity=perplexity, init="pca", random_state=start, n_jobs=1).fit_transform(scaled)


def features_of(subject: Subject, x: Tensor, clients: np.ndarray) -> np.ndarray:
    """[n, F] features of samples, each computed by the model of its client."""
    parts: list[tuple[np.ndarray, Tensor]] = []
    for i, client in enumerate(np.unique(clients).tolist()):
        subject.progress(0.2 * i / len(subject.models.personalized))
        mine = np.flatnonzero(clients == client)
        with torch.no_grad():
            parts.append((mine, _head_input(subject, subject.network_of(client), x[mine])))
    order = np.argsort(np.concatenate([mine for mine, _ in parts]))
    return torch.cat([f.flatten(1) for _, f in parts]).double().cpu().numpy()[order]


def _head_input(subject: Subject, params: SharedParams, x: Tensor) -> Tensor:
    """The first input of the head when the method predicts; the body's output if the head is not used."""
    model = replace(subject.task.model, module=copy.deepcopy(subject.task.model.module))
    seen: list[Tensor] = []
    model.module.head.register_forward_pre_hook(lambda head, given: seen.append(given[0]))
    (special_forward(subject.algorithm, model) or model.logits)(params, x)
    return seen[0] if seen else model.features(params, x)


def _separation(features: np.ndarray, groups: np.ndarray) -> dict[str, float | None]:
    """How well features separate groups.

    ``agreement``: share of a sample's nearest neighbors in its own group; ``chance``: share of all other samples in
    its group; ``silhouette``: from -1 to 1. None if there is only one group.
    """
    from sklearn.metrics import silhouette_score
    from sklearn.neighbors import NearestNeighbors

    _, sizes = np.unique(groups, return_counts=True)
    if len(sizes) < 2:
        return {"agreement": None, "chance": None, "silhouette": None}
    nearest = NearestNeighbors(n_neighbors=NEIGHBORS, n_jobs=1).fit(features).kneighbors(return_distance=False)
    chance = (sizes * (sizes - 1)).sum() / (len(groups) * (len(groups) - 1))
    silhouette = silhouette_score(features, groups) if len(sizes) < len(groups) else np.nan
    return {
        "agreement": float((groups[nearest] == groups[:, None]).mean()),
        "chance": float(chance),
        "silhouette": finite(float(silhouette)),
    }
