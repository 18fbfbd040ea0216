"""The configs of a trainer: Ray's names, defaults and checks."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import ray.train

from trainstate import train
from trainstate.train.callbacks import ReportCallback, UserCallback
from trainstate.train.config import adopt

OURS = (train.ScalingConfig, train.FailureConfig, train.CheckpointConfig, train.RunConfig)
# What is ours only; all of it can be given by keyword only.
EXTRA = {
    "report_timeout_s",
    "reset_after_reports",
    "backoff_first_s",
    "backoff_max_s",
    "max_replacements",
}


@pytest.mark.parametrize("ours", OURS, ids=lambda one: one.__name__)
def test_fields_and_defaults_are_rays(ours):
    """Every field that both have has the same default; only keyword-only fields are not Ray's."""
    theirs = {one.name: one for one in dataclasses.fields(getattr(ray.train, ours.__name__))}
    fields = dataclasses.fields(ours)
    assert {one.name for one in fields if one.kw_only} == {f.name for f in fields} - theirs.keys()
    for one in fields:
        if one.name in theirs:
            assert (one.name, theirs[one.name].default) == (one.name, one.default)
    assert {f.name for f in fields} - theirs.keys() <= EXTRA


@pytest.mark.parametrize("ours", OURS, ids=lambda one: one.__name__)
def test_every_field_of_rays_is_taken_or_refused_with_a_reason(ours):
    """Nothing of Ray's ends in "unexpected keyword argument"."""
    for field in dataclasses.fields(getattr(ray.train, ours.__name__)):
        if field.name not in {one.name for one in dataclasses.fields(ours)}:
            with pytest.raises(ValueError, match=f"{field.name}\\) is not supported: \\w"):
                ours(**{field.name: object()})


def test_rays_default_of_a_refused_field_is_taken():
    """A script that spells out the default runs."""
    assert train.ScalingConfig() == train.ScalingConfig(use_tpu=False, topology=None)
    with pytest.raises(TypeError, match="unexpected keyword"):
        train.ScalingConfig(workers=3)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"num_workers": -1}, "not negative"),
        ({"num_workers": 1.5}, "an int or a tuple"),
        ({"num_workers": True}, "an int or a tuple"),
        ({"num_workers": (3, 2)}, "in order"),
        ({"num_workers": (0, 2)}, "at least 1"),
        ({"num_workers": (1, 2, 3)}, "an int or a tuple"),
        ({"resources_per_worker": {"CPU": -1}}, "not negative"),
        ({"resources_per_worker": {"GPU": 1}}, "set use_gpu=True"),
        ({"resources_per_worker": {"GPU": 0}, "use_gpu": True}, "set use_gpu=True"),
        ({"placement_strategy": "CLOSE"}, "one of PACK"),
        ({"label_selector": [{}], "num_workers": 2}, "one selector"),
        ({"elastic_resize_monitor_interval_s": -1}, "not negative"),
    ],
)
def test_a_scaling_config_that_makes_no_sense_is_refused(fields, why):
    """At construction, with the field and its value."""
    with pytest.raises(ValueError, match=why):
        train.ScalingConfig(**fields)


@pytest.mark.parametrize(
    ("fields", "resources"),
    [
        ({}, {"CPU": 1.0}),
        ({"use_gpu": True}, {"GPU": 1.0}),
        ({"use_gpu": True, "resources_per_worker": {"CPU": 4}}, {"CPU": 4.0, "GPU": 1.0}),
        ({"resources_per_worker": {"CPU": 0, "disk": 2}}, {"disk": 2.0}),
        ({"accelerator_type": "T4"}, {"CPU": 1.0, "accelerator_type:T4": 0.001}),
    ],
)
def test_what_a_worker_asks_for(fields, resources):
    """The rules are Ray's, whose own config says the same."""
    assert resources == train.ScalingConfig(**fields).worker_resources()
    assert resources == ray.train.ScalingConfig(**fields)._resources_per_worker_not_none


@pytest.mark.parametrize(
    "fields",
    [
        {"max_failures": -2},
        {"max_failures": 1.5},
        {"controller_failure_limit": -2},
        {"max_preemption_failures": None},
        {"preemption_grace_s": -1},
        {"report_timeout_s": 0},
        {"reset_after_reports": -1},
        {"backoff_first_s": -1},
        {"backoff_first_s": 2, "backoff_max_s": 1},
        {"max_replacements": -1},
    ],
)
def test_a_failure_config_that_makes_no_sense_is_refused(fields):
    """At construction, naming the field."""
    with pytest.raises(ValueError, match=r"FailureConfig\(\w+=.*\) must be"):
        train.FailureConfig(**fields)


@pytest.mark.parametrize(
    "fields", [{"num_to_keep": 0}, {"num_to_keep": True}, {"checkpoint_score_order": "best"}]
)
def test_a_checkpoint_config_that_makes_no_sense_is_refused(fields):
    """At construction, naming the field."""
    with pytest.raises(ValueError, match=r"CheckpointConfig\(\w+=.*\) must be"):
        train.CheckpointConfig(**fields)


def test_runs_without_a_name_do_not_share_a_directory():
    """Even those that start in the same second."""
    assert 10 == len({train.RunConfig().name for _ in range(10)})


@pytest.mark.parametrize("name", ["/abs", "../up", "a/../../b"])
def test_a_name_stays_below_the_storage_path(name):
    """It is a directory there, maybe in another one."""
    with pytest.raises(ValueError, match="below storage_path"):
        train.RunConfig(name=name)
    assert "a/b" == train.RunConfig(name="a/b").name


def test_a_run_config_takes_paths_and_fills_in_the_rest():
    """As Ray's does."""
    config = train.RunConfig(storage_path=Path("somewhere"))
    assert "somewhere" == config.storage_path
    assert train.FailureConfig() == config.failure_config
    assert train.CheckpointConfig() == config.checkpoint_config
    assert ([], {}) == (config.callbacks, config.worker_runtime_env)


def test_rays_configs_are_read():
    """What is equal in both is taken over, nested configs too."""
    theirs = ray.train.RunConfig(
        name="n",
        storage_path="/s",
        failure_config=ray.train.FailureConfig(max_failures=3),
        checkpoint_config=ray.train.CheckpointConfig(num_to_keep=2),
    )
    ours = adopt(train.RunConfig, theirs)
    assert ("n", "/s", 3, 2) == (
        ours.name,
        ours.storage_path,
        ours.failure_config.max_failures,
        ours.checkpoint_config.num_to_keep,
    )
    scaling = adopt(train.ScalingConfig, ray.train.ScalingConfig(num_workers=(1, 4)))
    assert train.ScalingConfig((1, 4)) == scaling


def test_what_rays_configs_ask_for_and_we_do_not_have_is_refused():
    """It is not dropped in silence."""
    logging = ray.train.LoggingConfig(log_level="DEBUG")
    with pytest.raises(ValueError, match=r"RunConfig\(logging_config\) is not supported"):
        adopt(train.RunConfig, ray.train.RunConfig(logging_config=logging))
    with pytest.raises(ValueError, match=r"FailureConfig\(relax_coll"):
        adopt(train.FailureConfig, ray.train.FailureConfig(relax_collectives_on_preemption=True))
    with pytest.raises(ValueError, match="not a RunConfig: ScalingConfig"):
        adopt(train.RunConfig, train.ScalingConfig())


def test_callbacks_are_of_our_families_or_rays_user_callbacks():
    """Ray's UserCallback has the same hooks; anything else is refused at once."""
    told = []

    class Theirs(ray.train.UserCallback):
        def after_report(self, run_context, metrics, checkpoint):
            told.append((run_context, metrics, checkpoint))

        def after_exception(self, run_context, worker_exceptions):
            told.append((run_context, worker_exceptions))

    class Ours(ReportCallback):
        pass

    adopted, ours = train.RunConfig(callbacks=[Theirs(), Ours()]).callbacks
    assert isinstance(adopted, UserCallback)
    assert isinstance(ours, Ours)
    adopted.after_report("context", [{}], None)
    adopted.after_exception("context", {})
    assert [("context", [{}], None), ("context", {})] == told
    with pytest.raises(ValueError, match=r"has a function: derive it from"):
        train.RunConfig(callbacks=[test_what_a_worker_asks_for])
