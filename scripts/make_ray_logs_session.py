"""Starts one small Ray cluster, plays scenarios in it and keeps the export log Ray writes.

    make_ray_logs_session.py LOG ROTATION SCENARIO...

`make-ray-logs` calls this with the Python of each wheel. What a scenario trains is in
`make_ray_logs_runs.py`, which runs as a child for each; what happens to that child, and to the cluster,
is in WORLDS here. ROTATION is `none`, `each-line` (all that Ray's own variables can ask for, since it
reads their numbers as booleans) or a size in bytes.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Tracking and export are read by processes that the driver does not start, so the cluster needs them.
CLUSTER_ENV = {
    "RAY_TRAIN_V2_ENABLED": "1",
    "RAY_TRAIN_ENABLE_STATE_TRACKING": "1",
    "RAY_enable_export_api_write": "1",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.3",
    "RAY_TRAIN_STATE_ACTOR_RECONCILIATION_INTERVAL_S": "2",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "10",
    "RAY_TRAIN_METRICS_ENABLED": "0",  # Ray's metrics refuse a run name that is not ASCII
    "RAY_USAGE_STATS_ENABLED": "0",
}
EACH_LINE_ENV = {
    "RAY_EXPORT_EVENT_MAX_FILE_SIZE_BYTES": "1",
    "RAY_EXPORT_EVENT_MAX_BACKUP_COUNT": "1",
}
LOG_NAME = "event_EXPORT_TRAIN_STATE.log"
RUNS = Path(__file__).with_name("make_ray_logs_runs.py")
WAIT_S = 120


class World:
    """One cluster seen from outside: its log, its nodes, its drivers."""

    def __init__(self, folder):
        from ray.cluster_utils import Cluster

        self.folder = folder
        self.drivers = []
        self.events_seen = 0
        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 4,
                "resources": {"slot": 1, "widget": 4, "accelerator_type:T4": 4},
                "include_dashboard": True,  # Ray asks it whether the controller of a run is dead
                "dashboard_host": "127.0.0.1",
            },
        )

    def start_driver(self, scenario):
        """The driver leads a process group of its own: a signal reaches it and nobody else."""
        driver = subprocess.Popen(
            [sys.executable, RUNS, self.cluster.address, scenario],
            env={**os.environ, "RUN_FOLDER": str(self.run_folder(scenario))},
            start_new_session=True,
        )
        self.drivers.append(driver)
        return driver

    def stop(self):
        self.cluster.shutdown()
        for driver in self.drivers:
            driver.kill()
            driver.wait()

    def run_folder(self, scenario):
        folder = self.folder / "runs" / scenario
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def log_files(self):
        """The log and its rotated siblings, the newest first."""
        folder = self.folder / "ray/session_latest/logs/export_events"
        return sorted(folder.glob(LOG_NAME + "*"), key=lambda path: (len(path.name), path.name))

    def events(self):
        text = "".join(path.read_text() for path in reversed(self.log_files()))
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def wait_for(self, run_name, status, workers=None):
        """Waits for the next line in which the run, or an attempt of that size, has this status."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            for event in self.events()[self.events_seen :]:
                self.events_seen += 1
                if says(event["event_data"], run_name, status, workers):
                    return
            time.sleep(0.2)
        print(f"never seen: {run_name} {status} {workers or ''}", flush=True)

    def wait_until_trains(self, run_name, workers):
        """A node lost between the two lines would end the run: its start does not survive that."""
        self.wait_for(run_name, "RUNNING", workers)
        self.wait_for(run_name, "RUNNING")


def says(data, run_name, status, workers):
    if workers is None:
        return data.get("name") == run_name and data["status"] == status
    return data["status"] == status and len(data.get("workers", [])) == workers


# --- what the world does while a driver runs --------------------------------------------------


def let_it_end(world, scenario):
    wait_or_kill(world.start_driver(scenario))


def wait_or_kill(driver):
    try:
        driver.wait(WAIT_S)
    except subprocess.TimeoutExpired:
        print("never ended, killed", flush=True)
        driver.kill()


def interrupt(world, scenario):
    driver = world.start_driver(scenario)
    world.wait_for(scenario, "RUNNING")
    driver.send_signal(signal.SIGINT)
    wait_or_kill(driver)


def kill_driver(world, scenario):
    driver = world.start_driver(scenario)
    world.wait_for(scenario, "RUNNING")
    driver.kill()
    if has_reconciliation():
        world.wait_for(scenario, "ABORTED")
        time.sleep(1)  # the line of the attempt follows the run's


def has_reconciliation():
    from ray.train.v2._internal import constants

    return hasattr(constants, "STATE_ACTOR_RECONCILIATION_INTERVAL_S_ENV_VAR")


def add_and_remove_node(world, scenario):
    driver = world.start_driver(scenario)
    world.wait_until_trains(scenario, workers=1)
    node = world.cluster.add_node(num_cpus=1, resources={"slot": 1})
    world.wait_until_trains(scenario, workers=2)
    world.cluster.remove_node(node, allow_graceful=False)
    world.wait_until_trains(scenario, workers=1)
    (world.run_folder(scenario) / "stop").touch()
    wait_or_kill(driver)


def leave_running(world, scenario):
    """For the end of a session: the cluster stops under the run, which says RUNNING for ever."""
    world.start_driver(scenario)
    world.wait_for(scenario, "RUNNING")


WORLDS = {
    "interrupted": interrupt,
    "driver-killed": kill_driver,
    "elastic": add_and_remove_node,
    "cut-off": leave_running,
}


def main(log, rotation, *scenarios):
    folder = Path(tempfile.mkdtemp(dir=Path(__file__).parent, prefix="s-"))
    os.environ.update(CLUSTER_ENV, RAY_TMPDIR=str(folder), ROTATION=rotation)
    if rotation == "each-line":
        os.environ.update(EACH_LINE_ENV)
    world = World(folder)
    try:
        for scenario in scenarios:
            print("---", scenario, flush=True)
            WORLDS.get(scenario, let_it_end)(world, scenario)
    finally:
        world.stop()
    for path in world.log_files():
        shutil.copyfile(path, log + path.name.removeprefix(LOG_NAME))


if __name__ == "__main__":
    main(*sys.argv[1:])
