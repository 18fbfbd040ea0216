"""The settings of a run in the trainer's own arguments: there and back with nothing lost."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as settings_of
from hypothesis import strategies as st

from tests.core.views.making import run_settings, values
from trainstate.core.values import to_map
from trainstate.core.views.settings import model_of, settings_from
from trainstate.v1 import state_pb2 as s


def at(path: str, value: Any) -> Any:
    """`value` under those keys: at("a.b", 1) is {"a": {"b": 1}}."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return value


def seen(path: str, model: Any) -> Any:
    for name in path.split("."):
        model = model.get(name, ABSENT)
    return model


ABSENT = type("Absent", (dict,), {})()
CPU = s.ResourceSet(resources=[s.Resource(name="CPU", amount=1.5)])
ZONES = [s.LabelSelector(labels=[s.Label(key="zone", value=one)]) for one in "ab"]
OPTIONS = s.ExecutionOptions(resource_limits=to_map({"CPU": 2.0}), preserve_order=True)
OPTIONS_MODEL = {
    "resource_limits": {"CPU": 2.0},
    "preserve_order": True,
    "actor_locality_enabled": False,
    "verbose_progress": False,
}
SCALING, DATA, CHECKPOINT = "scaling_config", "data_config", "run_config.checkpoint_config"
FAILURE = "run_config.failure_config"
# The path in the model, the value there, the path in the message, the value there.
ROWS: list[tuple[str, Any, str, Any]] = [
    ("train_loop_config", {"lr": 0.1, "n": 42}, "train_loop_config", to_map({"lr": 0.1, "n": 42})),
    ("train_loop_config", {}, "train_loop_config", s.ValueMap()),
    ("train_loop_config", ABSENT, "", None),
    ("backend_config.framework", "torch", "backend_config.framework", 1),
    ("backend_config.framework", "jax", "backend_config.framework", 2),
    ("backend_config.framework", "tensorflow", "backend_config.framework", 3),
    ("backend_config.framework", "xgboost", "backend_config.framework", 4),
    ("backend_config.framework", "lightgbm", "backend_config.framework", 5),
    ("backend_config.framework", None, "backend_config.framework", 0),
    ("backend_config.config", {"backend": "nccl"}, "backend_config.config", None),
    (f"{SCALING}.num_workers", 2, f"{SCALING}.num_workers_fixed", 2),
    (f"{SCALING}.num_workers", 0, f"{SCALING}.num_workers_fixed", 0),
    (f"{SCALING}.num_workers", (2, 4), f"{SCALING}.num_workers_range", {"min": 2, "max": 4}),
    (f"{SCALING}.num_workers", ABSENT, f"{SCALING}", {}),
    (f"{SCALING}.use_gpu", True, f"{SCALING}.use_gpu", True),
    (f"{SCALING}.use_gpu", False, f"{SCALING}", {}),
    (f"{SCALING}.use_tpu", True, f"{SCALING}.use_tpu", True),
    (f"{SCALING}.use_tpu", False, f"{SCALING}", {}),
    (f"{SCALING}.resources_per_worker", {"CPU": 1.5}, f"{SCALING}.resources_per_worker", CPU),
    (f"{SCALING}.resources_per_worker", {}, f"{SCALING}.resources_per_worker", {}),
    (f"{SCALING}.resources_per_worker", ABSENT, f"{SCALING}", {}),
    (f"{SCALING}.placement_strategy", "SPREAD", f"{SCALING}.placement_strategy", "SPREAD"),
    (f"{SCALING}.placement_strategy", "", f"{SCALING}", {}),
    (f"{SCALING}.accelerator_type", "H100", f"{SCALING}.accelerator_type", "H100"),
    (f"{SCALING}.accelerator_type", "", f"{SCALING}.accelerator_type", ""),
    (f"{SCALING}.accelerator_type", ABSENT, f"{SCALING}", {}),
    (f"{SCALING}.topology", "2x2", f"{SCALING}.topology", "2x2"),
    (f"{SCALING}.topology", ABSENT, f"{SCALING}", {}),
    (f"{SCALING}.label_selector", {"zone": "a"}, f"{SCALING}.label_selector_single", ZONES[0]),
    (f"{SCALING}.label_selector", {}, f"{SCALING}.label_selector_single", {}),
    (
        f"{SCALING}.label_selector",
        [{"zone": "a"}, {"zone": "b"}],
        f"{SCALING}.label_selector_list",
        {"selectors": ZONES},
    ),
    (f"{SCALING}.label_selector", [], f"{SCALING}.label_selector_list", {}),
    (f"{SCALING}.label_selector", ABSENT, f"{SCALING}", {}),
    ("datasets", ["train", "eval"], "datasets", ["train", "eval"]),
    ("datasets", [], "datasets", []),
    (f"{DATA}.datasets_to_split", "all", f"{DATA}.all", {}),
    (f"{DATA}.datasets_to_split", ["all"], f"{DATA}.datasets", {"names": ["all"]}),
    (f"{DATA}.datasets_to_split", [], f"{DATA}.datasets", {}),
    (f"{DATA}.datasets_to_split", ABSENT, f"{DATA}", {}),
    (f"{DATA}.execution_options", {"a": {"b": 1}}, f"{DATA}.execution_options", None),
    (f"{DATA}.execution_options", ABSENT, f"{DATA}", {}),
    (
        f"{DATA}.data_execution_options.default",
        OPTIONS_MODEL,
        f"{DATA}.data_execution_options.default",
        OPTIONS,
    ),
    (
        f"{DATA}.data_execution_options.per_dataset",
        {"train": OPTIONS_MODEL},
        f"{DATA}.data_execution_options.per_dataset",
        [s.DatasetExecutionOptions(dataset="train", options=OPTIONS)],
    ),
    (f"{DATA}.data_execution_options", ABSENT, f"{DATA}", {}),
    (f"{DATA}.enable_shard_locality", True, f"{DATA}.enable_shard_locality", True),
    ("run_config.name", "mnist", "run_config.name", "mnist"),
    ("run_config.storage_path", "/s", "run_config.storage_path", "/s"),
    (f"{FAILURE}.max_failures", -1, f"{FAILURE}.max_failures", -1),
    (f"{FAILURE}.controller_failure_limit", 3, f"{FAILURE}.controller_failure_limit", 3),
    (f"{FAILURE}.max_preemption_failures", 0, f"{FAILURE}.max_preemption_failures", 0),
    (f"{FAILURE}.max_preemption_failures", ABSENT, f"{FAILURE}", {}),
    ("run_config.worker_runtime_env", {"pip": ["a"]}, "run_config.worker_runtime_env", None),
    ("run_config.worker_runtime_env", {}, "run_config.worker_runtime_env", {}),
    (f"{CHECKPOINT}.num_to_keep", 2**64 - 1, f"{CHECKPOINT}.num_to_keep", 2**64 - 1),
    (f"{CHECKPOINT}.num_to_keep", ABSENT, f"{CHECKPOINT}", {}),
    (
        f"{CHECKPOINT}.checkpoint_score_attribute",
        "loss",
        f"{CHECKPOINT}.checkpoint_score_attribute",
        "loss",
    ),
    (f"{CHECKPOINT}.checkpoint_score_attribute", ABSENT, f"{CHECKPOINT}", {}),
    (f"{CHECKPOINT}.checkpoint_score_order", "max", f"{CHECKPOINT}.checkpoint_score_order", 1),
    (f"{CHECKPOINT}.checkpoint_score_order", "min", f"{CHECKPOINT}.checkpoint_score_order", 2),
    (f"{CHECKPOINT}.checkpoint_score_order", None, f"{CHECKPOINT}.checkpoint_score_order", 0),
    ("run_config.storage_filesystem", "<fs>", "run_config.storage_filesystem", "<fs>"),
    ("run_config.storage_filesystem", ABSENT, "run_config", {}),
    ("limits.report_timeout_s", 2.5, "limits.report_timeout_s", 2.5),
    ("limits.report_timeout_s", ABSENT, "limits", {}),
    ("secret_keys", ["a", "!b"], "secret_keys", ["a", "!b"]),
]


def message_of(row: tuple[str, Any, str, Any]) -> s.RunSettings:
    _, value, name, there = row
    if not name:
        return s.RunSettings()
    return s.RunSettings(**at(name, to_map(value) if there is None else there))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}={row[1]}")
def test_row_of_a3_2_out(row):
    """A3.2: each row in the terms of the trainer; what is not set is not there."""
    shown = seen(row[0], model_of(message_of(row)))
    assert (row[1], type(row[1])) == (shown, type(shown))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}={row[1]}")
def test_row_of_a3_2_in(row):
    """A3.2: each row alone makes exactly its message."""
    path, value, *_ = row
    parent, _, name = path.rpartition(".")
    held = {} if value is ABSENT else {name: value}
    assert message_of(row) == settings_from(at(parent, held) if parent else held)
    assert message_of(row) == settings_from(model_of(message_of(row)))


@given(run_settings)
@settings_of(max_examples=300, deadline=None)
def test_any_settings_come_back_equal(settings):
    """Message to model to message, with nothing lost: not a bit of a NaN, not the order of a map."""
    again = settings_from(model_of(settings))
    assert settings.SerializeToString() == again.SerializeToString()


names = st.text(max_size=3)
labels = st.dictionaries(names, names, max_size=2)
int32, uint64 = st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**64 - 1)
maps = st.dictionaries(names, values, max_size=3)
amounts = st.dictionaries(names, st.floats(allow_nan=False), max_size=2)


def whole(required: dict[str, Any], **optional: Any) -> st.SearchStrategy[dict[str, Any]]:
    """A part of the model: what is always there, and what may be absent."""
    return st.fixed_dictionaries(required, optional=optional)


options = whole(
    dict.fromkeys(("preserve_order", "actor_locality_enabled", "verbose_progress"), st.booleans()),
    resource_limits=maps,
    exclude_resources=maps,
)
scaling = whole(
    {"use_gpu": st.booleans(), "use_tpu": st.booleans(), "placement_strategy": names},
    num_workers=int32 | st.tuples(int32, int32),
    resources_per_worker=amounts,
    accelerator_type=names,
    topology=names,
    label_selector=labels | st.lists(labels, max_size=2),
    elastic_resize_monitor_interval_s=st.floats(allow_nan=False),
    replica_group_size=int32,
)
data = whole(
    {"enable_shard_locality": st.booleans()},
    datasets_to_split=st.just("all") | st.lists(names, max_size=2),
    execution_options=maps,
    data_execution_options=whole(
        {"per_dataset": st.dictionaries(names, options, max_size=2)}, default=options
    ),
)
run_config = whole(
    {"name": names, "storage_path": names},
    failure_config=whole(
        {"max_failures": int32, "controller_failure_limit": int32},
        max_preemption_failures=int32,
        preemption_grace_s=st.floats(allow_nan=False),
        max_replacements=int32,
    ),
    worker_runtime_env=maps,
    checkpoint_config=whole(
        {"checkpoint_score_order": st.sampled_from(["max", "min", None])},
        num_to_keep=uint64,
        checkpoint_score_attribute=names,
    ),
    storage_filesystem=names,
)
models = whole(
    {"datasets": st.lists(names, max_size=2), "secret_keys": st.lists(names, max_size=2)},
    train_loop_config=maps,
    backend_config=whole({"framework": st.sampled_from(["torch", "jax", None])}, config=maps),
    scaling_config=scaling,
    data_config=data,
    run_config=run_config,
)


@given(models)
@settings_of(max_examples=300, deadline=None)
def test_any_model_comes_back_equal(model):
    """Model to message to model: ints are ints, tuples tuples, what is absent is absent."""
    assert _sorted(model) == _sorted(model_of(settings_from(model)))


def _sorted(value: Any) -> str:
    """A text that says 1, 1.0, True and (1,) apart, with a model's own keys in one order."""
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{key!r}: {_sorted(one)}' for key, one in value.items()))}}}"
    return repr(value)


@pytest.mark.parametrize(
    ("model", "match"),
    [
        ({"lr": 0.1}, "RunSettings has no 'lr'"),
        ({"scaling_config": {"num_workers_fixed_": 1}}, "ScalingConfig has no"),
        ({"run_config": {"failure_config": {"retries": 1}}}, "FailureConfig has no 'retries'"),
        (
            {"data_config": {"data_execution_options": {"per_dataset": {"a": {"b": 1}}}}},
            "ExecutionOptions has no 'b'",
        ),
    ],
)
def test_an_unknown_key_is_refused(model, match):
    """At any level, by its name."""
    with pytest.raises(ValueError, match=match):
        settings_from(model)


@pytest.mark.parametrize(
    "model",
    [
        {"datasets": 1},
        {"run_config": 1},
        {"run_config": {"name": 1}},
        {"scaling_config": {"num_workers": "two"}},
        {"scaling_config": {"use_gpu": "yes"}},
        {"train_loop_config": {"x": ABSENT.__class__}},
        {"run_config": {"failure_config": {"max_failures": 2**31}}},
        {"run_config": {"checkpoint_config": {"num_to_keep": -1}}},
        {"backend_config": {"framework": "pytorch"}},
        {"run_config": {"checkpoint_config": {"checkpoint_score_order": "best"}}},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(model):
    """With one of the two errors that are promised, and never taken for something else."""
    with pytest.raises((TypeError, ValueError)):
        settings_from(model)


def test_none_is_absent():
    """At any level, as the trainer's own defaults have it."""
    nothing = {
        "train_loop_config": None,
        "scaling_config": {"num_workers": None, "label_selector": None, "topology": None},
        "data_config": {"datasets_to_split": None, "data_execution_options": None},
        "datasets": None,
    }
    assert s.RunSettings(scaling_config={}, data_config={}) == settings_from(nothing)
    assert {"datasets": [], "secret_keys": []} == model_of(s.RunSettings())


def test_a_part_is_made_alone():
    """Of the type that is asked for."""
    assert s.ScalingConfig(num_workers_fixed=2) == settings_from(
        {"num_workers": 2}, s.ScalingConfig
    )


def test_numbers_stay_exact():
    """42 is no 42.0, 2**70 is there, and so is what is not finite."""
    config = {"n": 42, "x": 42.0, "large": 2**70, "inf": math.inf, "b": b"\xff", "none": None}
    settings = settings_from({"train_loop_config": config})
    assert repr(config) == repr(model_of(settings)["train_loop_config"])


def test_a_framework_of_the_future_is_a_number():
    """A number that only a newer version has a name for comes back."""
    settings = s.RunSettings(backend_config={"framework": 99})
    assert 99 == model_of(settings)["backend_config"]["framework"]
    assert settings == settings_from(model_of(settings))
