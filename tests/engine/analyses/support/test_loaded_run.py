"""A loaded run predicts as when it was recorded, for every kind of model."""

import numpy as np
import pytest
import torch

from engine.analyses.support.loaded_run import Subject, _to_device
from engine.core.errors import Unsupported
from engine.core.registry import ANALYSES
from engine.training.evaluate import evaluate
from tests.support.tiny_runs import tiny_config, trained

DNN = {"model": {"name": "dnn", "hidden": 8}}
METHODS = {
    "fedavg": {},
    "ditto": {},
    "gpfl": DNN,
    "fedproto by prototypes": DNN,
    "fedproto by heads": DNN,
    "cgpfl": {},
    "fedem": {},
}
OPTIONS = {
    "fedproto by prototypes": {"name": "fedproto", "predict": "prototype"},
    "fedproto by heads": {"name": "fedproto", "predict": "head"},
    "cgpfl": {"name": "cgpfl", "K": 2},
}


@pytest.mark.parametrize("method", METHODS)
def test_stored_models_have_the_recorded_losses(method: str) -> None:
    algorithm = OPTIONS.get(method, {"name": method})
    subject, last = trained(tiny_config(algorithms=[algorithm], **METHODS[method]))
    task = subject.task
    for path, predictor in (("personalized", subject.personalized), ("global", subject.global_model)):
        assert (predictor is not None) == (f"{path}.loss" in last.arrays)
        if predictor is not None:
            accuracy, loss = evaluate(task, predictor, task.data.test)
            np.testing.assert_allclose(loss, last.arrays[f"{path}.loss"], rtol=1e-5)
            np.testing.assert_allclose(accuracy, last.arrays[f"{path}.accuracy"], rtol=1e-6)


def test_a_clustered_method_gives_each_client_its_own_global_model() -> None:
    clustered, _ = trained(tiny_config(algorithms=[OPTIONS["cgpfl"]]))
    plain, _ = trained(tiny_config())
    assert clustered.global_model.is_per_client
    assert not plain.global_model.is_per_client


OF_ONE_NETWORK = [
    ("landscape", {}),
    ("plane", {}),
    ("features", {}),
    ("sharpness", {}),
    ("sharpness", {"of": "clients"}),
]


@pytest.mark.parametrize(("name", "options"), OF_ONE_NETWORK, ids=str)
def test_analyses_of_one_network_refuse_clients_with_several(name: str, options: dict[str, str]) -> None:
    subject, _ = trained(tiny_config(algorithms=["fedem"]))
    entry = ANALYSES.get(name)
    with pytest.raises(Unsupported, match="consists of several networks"):
        entry.make(entry.options(**options)).compute(subject)


def test_clients_with_several_networks_have_a_map() -> None:
    subject, _ = trained(tiny_config(algorithms=["fedem"]))
    entry = ANALYSES.get("client_map")
    found = entry.make(entry.options()).compute(subject)
    assert "start" not in found.arrays and found.values["difference"] == 0


def test_a_shared_model_is_loaded_once_on_every_device() -> None:
    common, _ = trained(tiny_config())
    own, _ = trained(tiny_config(algorithms=["ditto"]))
    assert not common.personalized.is_per_client and own.personalized.is_per_client
    elsewhere = [_to_device(subject.models, torch.device("meta")).is_common for subject in (common, own)]
    assert elsewhere == [True, False]


def test_loading_reports_progress_and_can_be_stopped() -> None:
    subject, _ = trained(tiny_config())

    class Stopped(Exception):
        pass

    def stop(share: float) -> None:
        raise Stopped

    again = Subject.load(subject.config, subject.models, subject.round, progress=stop)
    with pytest.raises(Stopped):
        again.task.tick()
