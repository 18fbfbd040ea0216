"""One Ray cluster for all tests that need one; one of several nodes for each test that needs that."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import nodes as several
from tests.cluster import Cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker of pytest-xdist runs what uses the cluster; Ray's own noise is no failure of ours."""
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("ray"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning:ray"))
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"))
        if "nodes" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("nodes"))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A local cluster; its state actor is at home in a directory of its own."""
    import ray

    # Ray puts sockets below its directory, whose paths must be short.
    with tempfile.TemporaryDirectory(prefix="ts") as folder, pytest.MonkeyPatch.context() as env:
        home = Path(folder) / "home"
        env.setenv("TRAINSTATE_HOME", str(home))
        env.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        context = ray.init(
            address="local",
            num_cpus=4,
            include_dashboard=False,
            _temp_dir=f"{folder}/r",
            log_to_driver=False,
            configure_logging=False,
            # What a driver asks for must not move the state actor's home.
            runtime_env={"env_vars": {"TRAINSTATE_HOME": f"{folder}/elsewhere"}},
        )
        try:
            yield Cluster(home, context.address_info["gcs_address"])
        finally:
            ray.shutdown()


@pytest.fixture
def nodes() -> Iterator[several.Nodes]:
    """A cluster of its own for one test: a head without CPUs, and the nodes that the test adds."""
    with tempfile.TemporaryDirectory(prefix="ts") as folder, several.starting(Path(folder)) as made:
        yield made
