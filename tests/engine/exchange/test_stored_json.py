"""What the engine stores matches the declarations by which a restored backup is judged."""

from engine.config.schema import parse_experiment
from engine.config.study import Study
from engine.exchange.stored_json import ConfigEntry
from engine.export import diagnostic_groups
from storage import backup_check


def test_a_study_with_the_largest_split_and_seed_can_be_restored() -> None:
    last = 2**32 - 1
    experiment = parse_experiment(
        {
            "dataset": "digits",
            "partition": {"name": "iid", "val_fraction": 0.2},
            "model": "mlr",
            "training": {"rounds": 1},
            "splits": [last],
            "seeds": [last],
            "algorithms": [{"name": "fedavg", "tune": {"training.lr": [0.01, 0.1]}}],
            "tune": {"trials": 2},
        }
    )

    stored = [config.to_dict() for config in Study(experiment).first_trials()]

    found = [ConfigEntry.model_validate(config).study for config in stored]
    assert len(found) == 2
    assert all(study is not None and study.split == last for study in found)


def test_backups_and_exports_check_the_same_diagnostics_of_each_client() -> None:
    names = backup_check.PER_CLIENT.pattern.partition(r"diagnostics\.(")[2].rstrip(")").replace("\\", "").split("|")
    assert set(names) == set(diagnostic_groups.PER_CLIENT)
