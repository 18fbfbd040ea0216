"""Nothing that trainstate writes has a secret in it: every byte is searched for those planted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from tests.e2e.secretive import MARK, NUMBER

ROOT = Path(__file__).parents[2]
# Ray writes the runtime environments it is given into a log of its own, secrets and all.
OF_RAY = {"runtime_env_agent.log"}
NEEDLES = (MARK.encode(), str(NUMBER).encode())

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nodes")]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Where the script has run: `home`, `storage`, Ray's `r`, and its own output in `driver`."""
    with tempfile.TemporaryDirectory(prefix="ts") as made:
        folder = Path(made)
        script = [sys.executable, "-m", "tests.e2e.secretive", str(folder)]
        script += ["--api-key", f"{MARK}-argument", f"--db=postgres://me:{MARK}-arg-url@h/db"]
        ran = subprocess.run(script, env=_env(folder), capture_output=True, timeout=300, cwd=ROOT)
        assert 0 == ran.returncode, ran.stderr.decode()
        (folder / "driver").write_bytes(ran.stdout + ran.stderr)
        yield folder


def _env(folder: Path) -> dict[str, str]:
    return {**os.environ, "TRAINSTATE_HOME": str(folder / "home")}


def _cli(folder: Path, *arguments: object) -> bytes:
    command = [sys.executable, "-m", "trainstate.cli", *map(str, arguments)]
    ran = subprocess.run(command, env=_env(folder), capture_output=True, timeout=60, cwd=folder)
    assert 0 == ran.returncode, ran.stderr.decode()
    return ran.stdout + ran.stderr


def _found(folder: Path) -> list[str]:
    files = [one for one in folder.rglob("*") if one.is_file() and one.name not in OF_RAY]
    return [
        f"{one.relative_to(folder)}: {needle.decode()}"
        for one in files
        for needle in NEEDLES
        if needle in one.read_bytes()
    ]


def test_no_file_has_a_secret(folder: Path) -> None:
    """Journals and what is beside them, storage, the driver's output, the logs of all our processes."""
    assert (folder / "home/salt").stat().st_size == 32
    assert list((folder / "r/session_latest/logs").glob("worker-*.err"))
    assert "<secret-" in (folder / "storage/finishes/checkpoint_manager_snapshot.json").read_text()
    assert [] == _found(folder)


def test_what_was_there_is_marked(folder: Path) -> None:
    """The same secret has the same marker, in two runs; and what is no secret is as it was."""
    told = [
        json.loads(_cli(folder, "show", name, "--settings", "--json"))["settings"]
        for name in ("fails", "finishes", "alone")
    ]
    configs = [one["train_loop_config"] for one in told]
    assert configs[0] == configs[1] == configs[2]
    assert (0.1, 5432) == (configs[0]["lr"], configs[0]["db"]["port"])
    for marked in ("password", "cloud"):
        assert configs[0][marked].startswith("<secret-")
    assert configs[0]["db"]["pin"].startswith("<secret-")
    assert configs[0]["db"]["password"] != configs[0]["db"]["pin"]


def test_how_it_was_started_is_recorded(folder: Path) -> None:
    """Command, directory, nodes and environment, found out beside the run; on a cluster and alone."""
    told = [
        json.loads(_cli(folder, "show", one, "--settings", "--json")) for one in ("fails", "alone")
    ]
    for one in told:
        found = one["provenance"]
        assert "-m tests.e2e.secretive" == found["entrypoint"]
        assert ["-m", "tests.e2e.secretive", str(folder)] == found["argv"][:3]
        assert str(ROOT) == found["working_directory"]
        assert {"ray", "trainstate"} <= one["framework_versions"].keys()
    assert metadata.version("torch") == told[0]["framework_versions"]["torch"]  # from rank 0 (A0.3)
    (nodes,) = told[0]["provenance"]["node_types"]
    assert (1, {"CPU": 2.0}) == (nodes["count"], nodes["resources"])
    assert 32 == len(told[0]["provenance"]["runtime_env_hash"])


@pytest.mark.parametrize(
    "verb",
    [
        ("runs",),
        ("show", "fails"),
        ("show", "fails", "--traceback"),
        ("show", "fails", "--json"),
        ("show", "alone", "--settings"),
        ("show", "finishes"),
        ("compare", "fails", "alone"),
        ("compare", "fails", "finishes", "--all", "--json"),
        ("rerun", "fails", "--print"),
        ("rerun", "fails", "--print", "--json"),
        ("tail", "--run", "fails"),
        ("tail", "--run", "finishes", "--json"),
    ],
    ids=" ".join,
)
def test_no_verb_tells_a_secret(folder: Path, verb: tuple[str, ...]) -> None:
    """For people and for programs."""
    told = _cli(folder, *verb)
    assert told
    assert not any(needle in told for needle in NEEDLES)


@pytest.mark.parametrize("sink", ["jsonl", "ray_export_log"])
def test_no_export_has_a_secret(folder: Path, sink: str) -> None:
    """Nor do the cursors, which are in the journals."""
    for number, journal in enumerate(sorted((folder / "home/journals").iterdir())):
        target = folder / f"{sink}-{number}"
        _cli(folder, "export", sink, "--to", target, "--journal", journal)
    assert [] == _found(folder)


def test_an_import_has_no_secret(folder: Path, tmp_path: Path) -> None:
    """Neither the journal nor the file of rejected lines; with --keep-secrets, both have them."""
    log = tmp_path / "event_EXPORT_TRAIN_STATE.log"
    shapes = json.loads((ROOT / "tests/data/ray_export_shape_variants.json").read_text())
    line = shapes["everything"]
    line["event_data"]["run_settings"]["train_loop_config"]["api_key"] = f"{MARK}-imported"
    line["event_data"]["status_detail"] = f"boom: password={MARK}-detail"
    log.write_text(json.dumps(line) + f'\n{{"token": "{MARK}-rejected"}}\n')
    for options, found in (((), []), (("--keep-secrets",), ["journal", "rejects"])):
        place = tmp_path / f"with{''.join(options)}"
        _cli(
            folder, "import", "ray-export", log, "--journal", place / "journal",
            "--rejects", place / "rejects", *options,
        )  # fmt: skip
        assert found == sorted({one.split("/")[0].split(":")[0] for one in _found(place)})
