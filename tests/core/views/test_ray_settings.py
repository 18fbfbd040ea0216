"""The settings of a run as Ray's log prints them: every row of A3.2, out and in."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import settings as settings_of
from hypothesis import strategies as st

from tests.core.histories import messages
from trainstate.core.values import to_map
from trainstate.core.views.ray_settings import SETTINGS, VERSIONS, dump, load
from trainstate.v1 import state_pb2 as s


class Row(NamedTuple):
    """A row of A3.2: fields of ours in a section of the settings, and Ray's JSON for one key of it."""

    section: str
    what: str
    ours: dict[str, Any]
    key: str
    shown: Any
    since: int = 3
    until: int = 4

    @property
    def settings(self) -> s.RunSettings:
        fields = self.ours
        for name in reversed(self.section.split(".") if self.section else []):
            fields = {name: fields}
        return s.RunSettings(**fields)

    def seen_in(self, printed: Any) -> Any:
        for name in filter(None, f"{self.section}.{self.key}".split(".")):
            printed = printed.get(name, ABSENT)
            if printed is ABSENT:
                break
        return printed


ABSENT = object()
LOOP, SCALING, DATA, RUN = "train_loop_config", "scaling_config", "data_config", "run_config"
BACKEND, CHECKPOINT = "backend_config", "run_config.checkpoint_config"

CPU = s.ResourceSet(resources=[s.Resource(name="CPU", amount=1)])
ZONE_A = s.LabelSelector(labels=[s.Label(key="zone", value="a")])
ZONE_B = s.LabelSelector(labels=[s.Label(key="zone", value="b")])
ZONES = {"selectors": [ZONE_A, ZONE_B]}
ZONES_SHOWN = {"values": [{"values": {"zone": "a"}}, {"values": {"zone": "b"}}]}
FAILURE = {"max_failures": -1, "controller_failure_limit": 3}
OPTIONS = s.ExecutionOptions(
    resource_limits=to_map({"CPU": "inf"}),
    exclude_resources=to_map({"GPU": 1.0}),
    actor_locality_enabled=True,
)
OPTIONS_SHOWN = {
    "resource_limits": {"CPU": "inf"},
    "exclude_resources": {"GPU": 1.0},
    "preserve_order": False,
    "actor_locality_enabled": True,
    "verbose_progress": False,
}
EXECUTION = s.DataExecutionOptions(
    default=OPTIONS, per_dataset=[s.DatasetExecutionOptions(dataset="train", options=OPTIONS)]
)
EXECUTION_SHOWN = {
    "default": OPTIONS_SHOWN,
    "per_dataset_execution_options": {"train": OPTIONS_SHOWN},
}
SHARDS, OLD_OPTIONS, NEW_OPTIONS = (
    "enable_shard_locality",
    "execution_options",
    "data_execution_options",
)
FIXED, RANGE, RESOURCES = "num_workers_fixed", "num_workers_range", "resources_per_worker"
SINGLE, LIST = "label_selector_single", "label_selector_list"
SCORE, ORDER, KEEP = "checkpoint_score_attribute", "checkpoint_score_order", "num_to_keep"
RUNTIME_ENV = "worker_runtime_env"

ROWS = [
    Row("", "run_settings", {}, "", {"datasets": []}),
    Row("", "given", {LOOP: to_map({"lr": 0.5, "tags": ["a"]})}, LOOP, {"lr": 0.5, "tags": ["a"]}),
    Row("", "empty", {LOOP: s.ValueMap()}, LOOP, {}),
    Row("", "None", {}, LOOP, ABSENT),
    Row("", "given", {"datasets": ["train", "eval"]}, "datasets", ["train", "eval"]),
    Row("", "empty", {}, "datasets", []),
    Row(BACKEND, "enum", {"framework": "TRAINING_FRAMEWORK_JAX"}, "framework", "JAX"),
    Row(BACKEND, "None", {}, "framework", "TRAINING_FRAMEWORK_UNSPECIFIED"),
    Row(BACKEND, "dict", {"config": to_map({"backend": "nccl"})}, "config", {"backend": "nccl"}),
    Row(SCALING, "int", {FIXED: 2}, FIXED, 2),
    Row(SCALING, "zero", {FIXED: 0}, FIXED, 0),
    Row(SCALING, "int", {FIXED: 2}, RANGE, ABSENT),
    Row(SCALING, "(min, max)", {RANGE: {"min": 1, "max": 4}}, RANGE, {"min": 1, "max": 4}),
    Row(SCALING, "(min, max)", {RANGE: {"min": 1}}, FIXED, ABSENT),
    Row(SCALING, "True", {"use_gpu": True}, "use_gpu", True),
    Row(SCALING, "default", {}, "use_gpu", False),
    Row(SCALING, "True", {"use_tpu": True}, "use_tpu", True),
    Row(SCALING, "default", {}, "use_tpu", False),
    Row(SCALING, "dict", {RESOURCES: CPU}, RESOURCES, {"values": {"CPU": 1.0}}),
    Row(SCALING, "empty", {RESOURCES: {}}, RESOURCES, {"values": {}}),
    Row(SCALING, "None", {}, RESOURCES, ABSENT),
    Row(SCALING, "given", {"placement_strategy": "SPREAD"}, "placement_strategy", "SPREAD"),
    Row(SCALING, "default", {}, "placement_strategy", ""),
    Row(SCALING, "given", {"accelerator_type": "H100"}, "accelerator_type", "H100"),
    Row(SCALING, "empty", {"accelerator_type": ""}, "accelerator_type", ""),
    Row(SCALING, "None", {}, "accelerator_type", ABSENT),
    Row(SCALING, "given", {"topology": "2x2"}, "topology", "2x2"),
    Row(SCALING, "None", {}, "topology", ABSENT),
    Row(SCALING, "dict", {SINGLE: ZONE_A}, SINGLE, {"values": {"zone": "a"}}),
    Row(SCALING, "list", {LIST: ZONES}, LIST, ZONES_SHOWN),
    Row(SCALING, "list", {LIST: ZONES}, SINGLE, ABSENT),
    Row(SCALING, "empty", {LIST: {}}, LIST, {"values": []}),
    Row(SCALING, "None", {}, LIST, ABSENT),
    Row(DATA, "all", {"all": {}}, "all", {}),
    Row(DATA, "list", {"datasets": {"names": ["train"]}}, "datasets", {"values": ["train"]}),
    Row(DATA, "empty", {"datasets": {}}, "datasets", {"values": []}),
    Row(DATA, "list", {"datasets": {"names": ["train"]}}, "all", ABSENT),
    Row(
        DATA,
        "dict",
        {OLD_OPTIONS: to_map({"a": {"b": True}})},
        OLD_OPTIONS,
        {"a": {"b": True}},
        3,
        3,
    ),
    Row(DATA, "None", {}, OLD_OPTIONS, ABSENT),
    Row(DATA, "given", {NEW_OPTIONS: EXECUTION}, NEW_OPTIONS, EXECUTION_SHOWN, since=4),
    Row(DATA, "None", {}, NEW_OPTIONS, ABSENT),
    Row(DATA, "True", {SHARDS: True}, SHARDS, True),
    Row(DATA, "default", {}, SHARDS, False),
    Row(RUN, "given", {"name": "mnist"}, "name", "mnist"),
    Row(RUN, "given", {"storage_path": "/s"}, "storage_path", "/s"),
    Row(RUN, "given", {"failure_config": FAILURE}, "failure_config", FAILURE),
    Row(RUN, "dict", {RUNTIME_ENV: to_map({"pip": ["a"]})}, RUNTIME_ENV, {"pip": ["a"]}),
    Row(RUN, "default", {RUNTIME_ENV: {}}, RUNTIME_ENV, {}),
    Row(RUN, "given", {"storage_filesystem": "<fs>"}, "storage_filesystem", "<fs>"),
    Row(RUN, "None", {}, "storage_filesystem", ABSENT),
    Row(CHECKPOINT, "given", {KEEP: 2}, KEEP, "2"),
    Row(CHECKPOINT, "64 bits", {KEEP: 2**64 - 1}, KEEP, "18446744073709551615"),
    Row(CHECKPOINT, "None", {}, KEEP, ABSENT),
    Row(CHECKPOINT, "given", {SCORE: "loss"}, SCORE, "loss"),
    Row(CHECKPOINT, "None", {}, SCORE, ABSENT),
    Row(CHECKPOINT, "max", {ORDER: "SCORE_ORDER_MAX"}, ORDER, "MAX"),
    Row(CHECKPOINT, "min", {ORDER: "SCORE_ORDER_MIN"}, ORDER, "MIN"),
    Row(CHECKPOINT, "unset", {}, ORDER, "SCORE_ORDER_UNSPECIFIED"),
]


def row_id(row):
    return f"A3.2-{row.section}.{row.key}-{row.what}"


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_row_of_a3_2_out(row, version):
    """A3.2, D: a value as that schema version prints it; absent where it is not set or not there."""
    shown = row.shown if row.since <= version <= row.until else ABSENT
    assert shown == row.seen_in(SETTINGS.dump(row.settings, version))


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_row_of_a3_2_in(row):
    """A3.2, 3-04: what was printed is read back to the same settings, by the version that has it."""
    printed = orjson.loads(orjson.dumps(SETTINGS.dump(row.settings, row.until)))
    assert row.settings == SETTINGS.load(printed)


@pytest.mark.parametrize("framework", ["TORCH", "JAX", "TENSORFLOW", "XGBOOST", "LIGHTGBM"])
def test_every_framework(framework):
    """A3.2 backend_config.framework: Ray's names are ours without the prefix."""
    number = s.TrainingFramework.Value(f"TRAINING_FRAMEWORK_{framework}")
    config = s.RunSettings(backend_config=s.BackendConfig(framework=number))
    assert framework == SETTINGS.dump(config, 4)["backend_config"]["framework"]
    assert config == SETTINGS.load({"backend_config": {"framework": framework}})


def test_framework_versions():
    """A3.2 framework_versions: an object, in the order they were recorded."""
    versions = [s.Version(name="torch", version="2.9"), s.Version(name="ray", version="2.60.0")]
    shown = VERSIONS.dump(versions, 4)
    assert [("torch", "2.9"), ("ray", "2.60.0")] == list(shown.items())
    assert versions == VERSIONS.load(shown)


def test_numbers_of_a_struct_are_doubles_and_ours_stay_integers():
    """3-13: printed for Ray as it would, 42.0; kept as 42, a bool as a bool."""
    settings = s.RunSettings(train_loop_config=to_map({"n": 42, "on": True, "deep": [{"m": 1}]}))
    shown = SETTINGS.dump(settings, 4)["train_loop_config"]
    assert '{"n":42.0,"on":true,"deep":[{"m":1.0}]}' == orjson.dumps(shown).decode()
    assert 42 == settings.train_loop_config.entries[0].value.int


@pytest.mark.parametrize(
    "hidden",
    [
        {RUN: {"failure_config": {"max_preemption_failures": 1, "preemption_grace_s": 5.0}}},
        {RUN: {"failure_config": {"max_replacements": 2}}},
        {SCALING: {"elastic_resize_monitor_interval_s": 60.0, "replica_group_size": 2}},
    ],
    ids=str,
)
def test_what_rays_log_has_no_place_for_is_not_printed(hidden):
    """A3.2, last paragraph: settings that Ray does not export are in our events only."""
    settings = s.RunSettings(**hidden)
    known = SETTINGS.load(SETTINGS.dump(settings, 4))
    assert settings != known
    assert SETTINGS.dump(known, 4) == SETTINGS.dump(settings, 4)


def test_unknown_keys_are_left_out():
    """A key of a newer Ray is no error (the line's residue keeps it)."""
    assert s.RunSettings(datasets=["a"]) == SETTINGS.load({"new": {"a": 1}, "datasets": ["a"]})


def test_a_framework_of_the_future_is_a_number():
    """An enum number without a name here is printed as it is, not an error."""
    settings = s.RunSettings(backend_config={"framework": 99})
    assert 99 == SETTINGS.dump(settings, 4)["backend_config"]["framework"]


@pytest.mark.parametrize("number", [10**400, -(10**400)], ids=["large", "small"])
def test_an_integer_too_large_for_a_double_does_not_fail(number):
    """3-12: Ray's export of 10**400 raises and kills the job; here it is printed as text."""
    settings = s.RunSettings(train_loop_config=to_map({"n": [number]}))
    assert {"n": [str(number)]} == SETTINGS.dump(settings, 4)["train_loop_config"]


@given(messages(s.RunSettings.DESCRIPTOR, depth=6), st.sampled_from([3, 4]))
@settings_of(max_examples=150, deadline=None)
def test_what_is_printed_is_stable(settings, version):
    """Printed, read and printed again: equal, for any settings whose enum numbers have names."""
    printed = SETTINGS.dump(settings, version)
    try:
        again = SETTINGS.dump(SETTINGS.load(printed), version)
    except TypeError:
        assert re.search(r"'(framework|checkpoint_score_order)': -?\d", repr(printed))
    else:
        assert repr(printed) == repr(again)


def test_dump_and_load_are_for_any_table():
    """The two functions behind the tables: presence follows the message."""
    assert {} == dump(s.WorkerRange(), (), 4)
    assert s.WorkerRange() == load(s.WorkerRange, (), {"min": 1})
