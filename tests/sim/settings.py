"""What a user asks for: drawn for each world."""

from __future__ import annotations

import random

from tests.sim.world import World
from trainstate.v1 import state_pb2 as s


def draw_settings(world: World) -> s.RunSettings:
    draw = world.draw
    settings = s.RunSettings()
    _scaling(draw, settings.scaling_config)
    failure = settings.run_config.failure_config
    failure.max_failures = draw.choice((0, 1, 2, 5, -1, -1))
    failure.controller_failure_limit = draw.choice((0, 2, -1, -1))
    failure.max_preemption_failures = draw.choice((1, -1))
    failure.preemption_grace_s = draw.choice((0, 5))
    if draw.random() < 0.7:
        failure.max_replacements = draw.randrange(4)
    keep = settings.run_config.checkpoint_config
    if draw.random() < 0.6:
        keep.num_to_keep = draw.randint(1, 2)
        keep.checkpoint_score_attribute = draw.choice(("loss", "rank", "none"))
        keep.checkpoint_score_order = draw.choice((s.SCORE_ORDER_MIN, s.SCORE_ORDER_MAX))
    limits = settings.limits
    limits.backoff_first_s, limits.backoff_max_s = 1, 8
    limits.reset_after_reports = draw.choice((0, 5))
    return settings


def _scaling(draw: random.Random, scaling: s.ScalingConfig) -> None:
    """A number of workers or a range of it, of single workers or of whole replica groups."""
    group = draw.choice((0, 0, 1, 1, 2, 3))
    units = draw.randint(2, 4) if group else draw.randint(1, 3)
    least, most = units * (group or 1), units * (group or 1)
    if draw.random() < 0.5:
        least = draw.randint(1, units) * (group or 1)
        most = least + draw.randint(1, 3 if group < 2 else 2) * (group or 1)
    if group:
        scaling.replica_group_size = group
    if least == most:
        scaling.num_workers_fixed = least
    else:
        scaling.num_workers_range.min, scaling.num_workers_range.max = least, most
        scaling.elastic_resize_monitor_interval_s = draw.choice((2, 10, 60))
