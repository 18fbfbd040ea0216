"""Settings through Ray's own generated messages: nothing unknown, nothing lost, nothing added."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import given as given_any
from hypothesis import settings as settings_of
from hypothesis import strategies as st
from ray.core.generated.export_train_state_pb2 import ExportTrainRunEventData

from tests.core.views.making import messages, names, values
from tests.core.views.test_ray_line import RUN_ALWAYS, RUN_SINCE_2
from trainstate.core import Run
from trainstate.core.views.ray_line import run_line
from trainstate.core.views.ray_log import log_line
from trainstate.core.views.ray_settings import NEWEST, SETTINGS
from trainstate.testing import event, given
from trainstate.v1 import event_pb2 as e
from trainstate.v1 import state_pb2 as s

finite = st.floats(allow_nan=False, allow_infinity=False)
# What google.protobuf.Struct holds: no int, no bytes, nothing that is not finite.
structs = st.recursive(
    st.none() | st.booleans() | finite | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
V1 = RUN_ALWAYS | {"controller_log_file_path"}
V2 = V1 | RUN_SINCE_2
V3 = V2 | {"framework_versions", "run_settings"}


def held_by_ray(settings: s.RunSettings) -> s.RunSettings:
    """The settings without what Ray's schema has no place for."""
    settings.ClearField("limits")
    settings.ClearField("secret_keys")
    if settings.HasField("scaling_config"):
        settings.scaling_config.ClearField("elastic_resize_monitor_interval_s")
        settings.scaling_config.ClearField("replica_group_size")
        for one in settings.scaling_config.resources_per_worker.resources:
            one.amount = one.amount if abs(one.amount) < 2**1000 else 1.5
    if settings.HasField("data_config"):
        settings.data_config.ClearField("execution_options")
    if settings.HasField("run_config") and settings.run_config.HasField("failure_config"):
        for name in ("max_preemption_failures", "preemption_grace_s", "max_replacements"):
            settings.run_config.failure_config.ClearField(name)
    return settings


run_settings = messages(s.RunSettings.DESCRIPTOR, structs).map(held_by_ray)


def run_with(settings: s.RunSettings) -> Run:
    created = e.RunCreated(
        name="mnist",
        job_id=b"\x01\x00\x00\x00",
        controller_actor_id=b"actor",
        controller_log_path="/logs/controller.log",
        settings=settings,
        framework_versions=[s.Version(name="ray", version="2.60.0")],
    )
    return given(event(created)).run


def through_ray(line: dict[str, Any]) -> Any:
    """The line as Ray's own messages print it again; an unknown field raises ParseError."""
    parsed = ParseDict(json.loads(json.dumps(line)), ExportTrainRunEventData())
    return MessageToDict(
        parsed, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


@given_any(run_settings)
@settings_of(max_examples=300, deadline=None)
def test_a_line_is_what_ray_prints(settings):
    """D: our line through `ExportTrainRunEventData` and back is equal, key by key."""
    line = run_line(run_with(settings), NEWEST)
    assert line == through_ray(line)


@given_any(run_settings)
@settings_of(max_examples=300, deadline=None)
def test_settings_come_back_through_ray(settings):
    """A3.2: printed, read and printed by Ray, read by us: what Ray's schema holds is all there."""
    line = run_line(run_with(settings), NEWEST)
    assert settings == SETTINGS.load(json.loads(json.dumps(line))["run_settings"])
    again = SETTINGS.load(through_ray(line)["run_settings"])
    # Ray prints 1.0 as 1, and of a map's keys another order.
    assert SETTINGS.dump(settings, NEWEST) == SETTINGS.dump(again, NEWEST)


@given_any(messages(s.RunSettings.DESCRIPTOR, values))
@settings_of(max_examples=300, deadline=None)
def test_a_line_of_a_live_run_is_read_whatever_users_gave(settings):
    """Integers of any size, bytes, what is not finite: Ray's parser takes what the log has of them."""
    created = event(e.RunCreated(name="mnist", settings=held_by_ray(settings)))
    line = log_line(created, given(created).run)
    shown = through_ray(line["event_data"])
    assert line["event_data"] == shown


@given_any(messages(s.RunSettings.DESCRIPTOR, structs))
@settings_of(max_examples=100, deadline=None)
def test_a_version_prints_its_own_keys(settings):
    """1 to 4 (3-04): what a later version brought is in none before it."""
    run = run_with(settings)
    assert [V1, V2, V3, V3] == [set(run_line(run, version)) for version in range(1, 5)]
    third, fourth = (run_line(run, version)["run_settings"] for version in (3, 4))
    assert "data_execution_options" not in third.get("data_config", {})
    assert "execution_options" not in fourth.get("data_config", {})
    fields = set(
        ExportTrainRunEventData.DESCRIPTOR.fields_by_name[
            "run_settings"
        ].message_type.fields_by_name
    )
    assert set() == {*third, *fourth} - fields


@pytest.mark.parametrize("version", [1, 2])
def test_older_lines_are_read_by_rays_newest_parser(version):
    """They have fewer keys, and none that Ray has dropped."""
    line = run_line(run_with(s.RunSettings()), version)
    shown = through_ray(line)
    assert line == {key: shown[key] for key in line}


def test_every_field_of_rays_settings_is_ours():
    """What Ray's newest schema has a place for, we print when it is set."""
    theirs = ExportTrainRunEventData.DESCRIPTOR.fields_by_name["run_settings"].message_type
    full = s.RunSettings(
        train_loop_config={},
        backend_config={},
        scaling_config={},
        data_config={},
        run_config={},
    )
    assert {field.name for field in theirs.fields} == set(SETTINGS.dump(full, NEWEST))
