"""What the reference asks, row by row, and the tests that show it.

The ids are those of the reference: 1-.. is TorchX's elastic Ray driver, 2-.. replica groups, 3-.. the
metadata of runs, A6.4 the texts of errors, A6.6 the busy loop. A row whose tests are gone, or named
otherwise, is found here.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
_START, _GROUP = "core/test_decide.py", "core/test_decide_group.py"
_SIZE, _ELASTIC = "core/test_decide_size.py", "e2e/test_elastic.py"
_REDACT, _RAYS_LOG = "core/test_redact.py", "exporters/test_ray_export_log.py"
_GROUPS, _HOOKS = "e2e/test_groups.py", "controller/test_observers.py"

ROWS: dict[str, tuple[str, ...]] = {
    "1-01": ("e2e/test_nodes.py::test_a_node_is_lost",),
    "1-02": (
        f"{_ELASTIC}::test_1_02_a_reservation_is_kept",
        f"{_SIZE}::test_a_fixed_run_is_placed_where_it_was",
    ),
    "1-03": (
        "controller/test_placement.py::test_a_lost_bundle_comes_back",
        "state/test_removal.py::test_all_of_an_attempt_goes",
    ),
    "1-04": (
        f"{_SIZE}::test_room_is_observed",
        "controller/test_placement.py::test_nodes_are_watched",
    ),
    "1-05": (
        f"{_ELASTIC}::test_1_05_a_run_grows_and_shrinks_with_the_cluster",
        f"{_SIZE}::test_everything_is_asked_for_at_once",
    ),
    "1-06": (f"{_SIZE}::test_everything_is_asked_for_at_once",),
    "1-07": (
        f"{_START}::test_a_placement_that_comes_too_late_is_tried_again",
        "controller/test_placement.py::test_what_is_missing_is_said",
    ),
    "1-08": (
        f"{_START}::test_a_placement_gives_every_rank_a_bundle",
        f"{_START}::test_a_gang_is_all_of_its_workers",
    ),
    "1-09": ("core/test_transitions.py::test_worker_machine_of_torchx",),
    "1-10": ("core/test_plan.py::test_whatever_is_observed_is_decided_legally",),
    "1-11": ("core/test_plan.py::test_whatever_is_observed_is_decided_legally",),
    "1-12": ("train/torch/test_config.py::test_the_backend_joins_the_workers",),
    "1-13": (
        f"{_SIZE}::test_a_run_does_not_grow",
        f"{_GROUP}::test_partial_or_full",
    ),
    "1-14": (f"{_START}::test_a_run_finishes_when_all_workers_completed",),
    "1-15": ("core/test_policy.py::test_the_size_that_was_asked_for",),
    "1-16": ("core/test_policy.py::test_a_run_is_tried_as_often_as_its_budget_allows",),
    "1-17": (
        f"{_ELASTIC}::test_it_starts_when_nodes_arrive",
        f"{_ELASTIC}::test_1_05_a_run_grows_and_shrinks_with_the_cluster",
        "e2e/test_nodes.py::test_a_node_is_lost",
    ),
    "2-01": ("controller/test_gang.py::test_groups_are_execution_groups",),
    "2-02": (
        f"{_HOOKS}::test_the_order_of_a_replacement",
        f"{_GROUPS}::test_2_11_a_replacement_that_never_comes_up",
    ),
    "2-03": (
        f"{_GROUPS}::test_2_03_a_group_is_replaced_on_its_bundles",
        f"{_GROUP}::test_a_replacement_is_on_the_same_bundles_with_the_same_ranks",
    ),
    "2-04": (f"{_GROUP}::test_a_dead_generation_is_not_heard",),
    "2-05": (f"{_HOOKS}::test_the_order_of_a_replacement",),
    "2-06": ("train/torch/test_torchft.py::test_groups_are_set_up_at_once_and_apart",),
    "2-07": (f"{_HOOKS}::test_the_order_of_a_replacement",),
    "2-08": (f"{_GROUPS}::test_2_08_the_journal_and_rays_log_have_the_new_workers",),
    "2-09": (
        f"{_GROUP}::test_partial_or_full",
        f"{_GROUP}::test_a_resize_is_full",
        f"{_GROUP}::test_a_size_that_changed_starts_all_anew",
    ),
    "2-10": (f"{_GROUP}::test_the_decision_says_what_is_replaced_and_why",),
    "2-11": (
        f"{_GROUPS}::test_2_11_a_replacement_that_never_comes_up",
        f"{_GROUP}::test_so_many_failed_replacements_restart_everything",
    ),
    "2-12": (
        f"{_GROUP}::test_nothing_of_a_failed_replacement_trains",
        f"{_GROUPS}::test_2_11_a_replacement_that_never_comes_up",
    ),
    "2-13": (f"{_GROUPS}::test_2_03_a_group_is_replaced_on_its_bundles",),
    "2-14": (f"{_GROUP}::test_what_was_replaced_before_is_left_alone",),
    "2-15": (
        f"{_GROUPS}::test_2_15_groups_are_replaced_at_the_same_time",
        f"{_GROUP}::test_several_are_replaced_at_once",
    ),
    "2-16": (f"{_GROUPS}::test_2_03_a_group_is_replaced_on_its_bundles",),
    "2-17": (f"{_ELASTIC}::test_2_17_replica_groups_come_and_go_whole",),
    "2-18": (
        "e2e/test_data.py::test_a_replacement_goes_on_with_the_shard",
        "controller/test_data_host.py::test_the_replacement_goes_on_with_the_rest",
    ),
    "2-19": (
        f"{_GROUP}::test_reports_of_survivors_are_kept",
        f"{_GROUP}::test_generations_are_not_mixed_in_a_checkpoint",
        f"{_GROUPS}::test_2_03_a_group_is_replaced_on_its_bundles",
    ),
    "2-20": (f"{_GROUP}::test_a_notice_is_for_the_worker_that_replaced_another",),
    "2-21": (
        "e2e/test_torchft.py::test_a_group_is_killed_twice",
        f"{_GROUP}::test_partial_or_full",
        f"{_HOOKS}::test_the_order_of_a_replacement",
    ),
    "3-01": (
        "e2e/test_both.py::test_settings_are_the_same",
        "train/test_provenance.py::test_a_script_is_told_with_its_commit",
    ),
    "3-02": (
        "core/views/test_settings.py::test_any_settings_come_back_equal",
        "e2e/test_both.py::test_settings_are_the_same",
    ),
    "3-03": ("train/test_settings.py::test_3_03_every_backend_config_yields_a_dict",),
    "3-04": (
        "integrations/ray_export/test_lines.py::test_refuses",
        f"{_RAYS_LOG}::test_a_live_run_is_written_in_the_version_asked_for",
    ),
    "3-05": (
        f"{_REDACT}::test_3_05_primitives_pass",
        f"{_RAYS_LOG}::test_settings_that_json_cannot_say_are_written_as_ray_would",
    ),
    "3-06": (
        f"{_REDACT}::test_3_06_sequences_and_sets_are_lists_and_keys_are_texts",
        f"{_REDACT}::test_3_06_keys_that_are_one_text_stay_two",
    ),
    "3-07": (
        f"{_REDACT}::test_3_07_only_dicts_count_for_the_depth",
        f"{_REDACT}::test_3_07_the_example",
        f"{_RAYS_LOG}::test_settings_are_as_deep_as_ray_shows_them",
    ),
    "3-08": (
        f"{_REDACT}::test_3_08_a_depth_below_one_is_refused",
        f"{_REDACT}::test_3_08_a_map_is_made_of_a_mapping_only",
    ),
    "3-09": (
        f"{_REDACT}::test_3_09_an_object_is_its_text_or_its_class",
        f"{_REDACT}::test_3_09_no_address_is_in_a_text",
    ),
    "3-10": (f"{_REDACT}::test_3_10_the_key_inf_is_there",),
    "3-11": (
        "test_schema.py::test_schema_breaks_no_release",
        "test_schema.py::test_new_fields_survive_old_hands",
    ),
    "3-12": (
        f"{_REDACT}::test_3_12_sanitising_never_fails_the_job",
        "train/test_settings.py::test_odd_values_never_fail",
    ),
    "3-13": (
        f"{_REDACT}::test_3_13_ints_survive",
        "core/views/test_settings.py::test_numbers_stay_exact",
    ),
    "3-14": (
        f"{_REDACT}::test_3_14_a_text_has_a_bound_and_says_its_size",
        f"{_REDACT}::test_what_is_too_much_is_cut_and_says_so",
    ),
    "3-15": (
        "e2e/test_secrets.py::test_no_file_has_a_secret",
        "e2e/test_secrets.py::test_no_verb_tells_a_secret",
        "core/test_mask.py::test_every_kind_of_event",
    ),
    "A6.4": (
        "core/views/test_failures.py::test_ranks_that_failed_alike_are_together",
        "e2e/test_both.py::test_what_failed_is_told_by_rank",
    ),
    "A6.6": (
        f"{_ELASTIC}::test_a6_6_it_waits_for_its_minimum",
        f"{_SIZE}::test_an_elastic_run_says_what_it_waits_for",
    ),
}


def test_every_row_is_here():
    """All of TorchX's, of replica groups' and of the metadata's, the errors' text and the busy loop."""
    last = {1: 17, 2: 21, 3: 15}
    asked = [f"{part}-{row:02}" for part in last for row in range(1, last[part] + 1)]
    assert [*asked, "A6.4", "A6.6"] == list(ROWS)


@pytest.mark.parametrize("row", ROWS)
def test_its_tests_exist(row: str):
    """By file and name."""
    for one in ROWS[row]:
        file, name = one.split("::")
        assert name in _tests_of(TESTS / file), one


@cache
def _tests_of(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))
