"""What the fork server loads for all workers."""

import gc
import sys

from engine.worker.local_executor import PRELOADED
from engine.worker.process import REGISTRIES, SESSIONS


def test_the_fork_server_loads_every_method_data_set_and_model_and_collects_garbage_again():
    preloaded = __import__(PRELOADED, fromlist=["modules"])
    modules = set(preloaded.modules())
    assert {entry.make.__module__ for registry in REGISTRIES for entry in registry} <= modules
    assert {*SESSIONS, "sklearn.cluster"} <= modules <= set(sys.modules)
    assert gc.isenabled() and gc.get_freeze_count() > 0
