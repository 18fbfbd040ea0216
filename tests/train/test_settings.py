"""What a trainer was asked for, as its run records it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import ray.train

from trainstate import train
from trainstate.controller.backend import Backend, BackendConfig
from trainstate.core.values import from_map
from trainstate.core.views.ray_settings import NEWEST, SETTINGS
from trainstate.errors import UsageError
from trainstate.train.settings import LIMITS, limits_of, settings_of
from trainstate.train.torch import TorchConfig, TorchftConfig
from trainstate.v1 import state_pb2 as s


def made(**fields) -> s.RunSettings:
    asked = {
        "train_loop_config": None,
        "backend_config": BackendConfig(),
        "scaling_config": train.ScalingConfig(),
        "run_config": train.RunConfig(name="exp", storage_path="/s"),
        "datasets": (),
        "data_config": None,
        "environ": {},
    }
    return settings_of(**{**asked, **fields})


def test_settings_print_as_rays_log_has_them():
    """The table that renders Ray's log takes what `fit()` records (reference A3.2)."""
    printed = SETTINGS.dump(
        made(
            train_loop_config={"lr": 0.1, "layers": (1, 2)},
            backend_config=TorchConfig(backend="gloo"),
            scaling_config=train.ScalingConfig(2, label_selector={"zone": "a"}),
            datasets=["train"],
        ),
        NEWEST,
    )
    assert {"lr": 0.1, "layers": [1.0, 2.0]} == printed["train_loop_config"]
    assert {
        "framework": "TORCH",
        "config": {"backend": "gloo", "init_method": "env", "timeout_s": 1800.0},
    } == printed["backend_config"]
    assert {
        "num_workers_fixed": 2,
        "use_gpu": False,
        "resources_per_worker": {"values": {"CPU": 1.0}},
        "placement_strategy": "PACK",
        "use_tpu": False,
        "label_selector_single": {"values": {"zone": "a"}},
    } == printed["scaling_config"]
    assert ["train"] == printed["datasets"]
    assert {"max_failures": 0, "controller_failure_limit": -1} == printed["run_config"][
        "failure_config"
    ]


def test_unset_is_not_default():
    """What nobody set is absent, so that a reader can tell (A3.2)."""
    settings = made()
    assert not settings.HasField("train_loop_config")
    assert not settings.scaling_config.HasField("accelerator_type")
    assert not settings.run_config.checkpoint_config.HasField("num_to_keep")
    assert not settings.run_config.HasField("storage_filesystem")
    assert not settings.limits.HasField("report_timeout_s")


def test_elastic_and_selectors_per_worker():
    """A range of workers, and one selector each."""
    scaling = made(
        scaling_config=train.ScalingConfig((1, 2), label_selector=[{"a": "1"}, {"a": "2"}])
    ).scaling_config
    assert s.WorkerRange(min=1, max=2) == scaling.num_workers_range
    assert 60.0 == scaling.elastic_resize_monitor_interval_s
    assert ["1", "2"] == [one.labels[0].value for one in scaling.label_selector_list.selectors]


def test_odd_values_never_fail():
    """Whatever a train loop config holds, the settings are recorded (row 3-12)."""
    loop: dict = {"big": 10**400, "surrogate": "\ud800", "object": object()}
    loop["self"] = loop
    recorded = from_map(made(train_loop_config=loop).train_loop_config)
    assert ("\\ud800", "object") == (recorded["surrogate"], recorded["object"])
    assert 10**400 == recorded["big"]


@pytest.mark.parametrize(
    "config",
    [BackendConfig(), TorchConfig(), TorchConfig(backend="gloo", timeout_s=7), TorchftConfig()],
    ids=lambda config: type(config).__name__,
)
def test_3_03_every_backend_config_yields_a_dict(config):
    """With all of its fields, recorded as they are; one of a user's own too."""
    given = config.to_dict()
    assert isinstance(given, dict)
    recorded = from_map(made(backend_config=config).backend_config.config)
    assert set(given) == set(recorded)


def test_caps_and_secret_names_are_the_drivers():
    """Smaller bounds, and more names; what is no number in range is refused."""
    environ = {
        "TRAINSTATE_SETTINGS_BYTES": "200",
        "TRAINSTATE_SETTINGS_DEPTH": "1",
        "TRAINSTATE_SECRET_KEYS": "pin, code,!dsn",
    }
    settings = made(train_loop_config={"a": {"b": 1}, "c": "x" * 1000}, environ=environ)
    assert ["pin", "code", "!dsn"] == list(settings.secret_keys)
    kept = from_map(settings.train_loop_config)
    assert "... (1 keys)" == kept["a"]
    assert kept["c"].endswith("... (1000 characters)")
    for text in ("0", "-1", "x", "1e9", "99999999"):
        with pytest.raises(UsageError, match="TRAINSTATE_SETTINGS_BYTES"):
            made(environ={"TRAINSTATE_SETTINGS_BYTES": text})


def test_rays_data_config_is_read():
    """Which datasets are split, and how they are executed."""
    from ray.data import ExecutionOptions

    one = ExecutionOptions(preserve_order=True)
    one.resource_limits = one.resource_limits.copy(cpu=2)
    config = ray.train.DataConfig(["train"], {"train": one}, enable_shard_locality=False)
    data = made(data_config=config).data_config
    assert ["train"] == list(data.datasets.names)
    assert not data.enable_shard_locality
    [per_dataset] = data.data_execution_options.per_dataset
    assert ("train", True) == (per_dataset.dataset, per_dataset.options.preserve_order)
    limits = from_map(per_dataset.options.resource_limits)
    assert (2, float("inf")) == (limits["CPU"], limits["GPU"])


def test_no_data_config_is_rays_default():
    """None stands for `DataConfig()`, which costs an import of ray.train."""
    assert made(data_config=ray.train.DataConfig()).data_config == made().data_config
    assert "all" == made().data_config.WhichOneof("datasets_to_split")


def test_rays_enum_of_frameworks_is_understood():
    """A backend config may name its framework as Ray does."""
    config = SimpleNamespace(
        framework=SimpleNamespace(value="jax"), to_dict=dict, backend_cls=Backend
    )
    recorded = made(backend_config=config).backend_config
    assert s.TRAINING_FRAMEWORK_JAX == recorded.framework


def test_limits_come_from_the_environment_or_the_table():
    """Every variable sets its field."""
    environ = {name: str(7 + number) for number, name in enumerate(LIMITS)}
    found = limits_of(train.FailureConfig(), environ)
    assert [7 + number for number in range(len(LIMITS))] == [
        getattr(found, field) for field, _ in LIMITS.values()
    ]
    assert [default for _, default in LIMITS.values()] == [
        getattr(limits_of(train.FailureConfig(), {}), field) for field, _ in LIMITS.values()
    ]


def test_limits_of_the_failure_config():
    """What is configured per run."""
    config = train.FailureConfig(
        report_timeout_s=5, backoff_first_s=2, backoff_max_s=8, reset_after_reports=3
    )
    found = limits_of(config, {})
    assert (5, 2, 8, 3) == (
        found.report_timeout_s,
        found.backoff_first_s,
        found.backoff_max_s,
        found.reset_after_reports,
    )


@pytest.mark.parametrize("text", ["soon", "0", "-1", "inf", "nan"])
def test_a_limit_that_is_none_is_refused(text):
    """With the variable to fix."""
    with pytest.raises(UsageError, match=f"TRAINSTATE_START_TIMEOUT_S='{text}'"):
        limits_of(train.FailureConfig(), {"TRAINSTATE_START_TIMEOUT_S": text})
