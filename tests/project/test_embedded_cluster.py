"""The embedded server: what it keeps through kills, what it clears, what it refuses."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from ledgence_project.embedded import Cluster, ClusterFailed, held
from ledgence_project.embedded.owner import cluster_of
from ledgence_project.embedded.place import place_of

pytestmark = pytest.mark.process


def setting(cluster: Cluster, name: str) -> str:
    with psycopg.connect(cluster.url("postgres")) as connection:
        row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    assert row is not None
    return str(row[0])


def test_the_server_is_durable_roomy_and_listens_on_no_network(checkout: Path) -> None:
    with held(checkout) as cluster:
        assert setting(cluster, "server_version").startswith("18.")
        assert setting(cluster, "fsync") == "on"
        assert setting(cluster, "full_page_writes") == "on"
        assert setting(cluster, "synchronous_commit") == "on"
        assert setting(cluster, "max_connections") == "200"
        assert setting(cluster, "listen_addresses") == ""


def test_nobody_else_can_reach_the_socket_or_the_data(checkout: Path) -> None:
    with held(checkout) as cluster:
        for folder in (cluster.folder, cluster.data, cluster.socket):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_private_folders_stay_private(tmp_path: Path, checkout: Path) -> None:
    # A server of root's runs as another user, which tempts one to open every folder above what it needs.
    private = (checkout, checkout.parent, Path(os.__file__).parent, Path(psycopg.__file__).parents[4])
    before = [folder.stat().st_mode for folder in private]
    with held(checkout) as cluster:
        assert checkout not in cluster.folder.parents
        assert [folder.stat().st_mode for folder in private] == before


def test_each_checkout_has_its_own_place(tmp_path: Path) -> None:
    assert place_of(tmp_path / "one") != place_of(tmp_path / "two")
    assert place_of(tmp_path / "one" / ".." / "one") == place_of(tmp_path / "one")


def test_what_was_committed_survives_a_killed_server(checkout: Path) -> None:
    with held(checkout) as cluster:
        cluster.create_database("kept")
        with psycopg.connect(cluster.url("kept"), autocommit=True) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS kept AS SELECT 7 AS value")
        server = cluster.process()
        assert server is not None
        server.kill()
        server.wait(10)
        assert cluster.process() is None
        cluster.start()
        cluster.create_database("kept")
        with psycopg.connect(cluster.url("kept")) as connection:
            assert connection.execute("SELECT value FROM kept").fetchall() == [(7,)]


def test_a_recorded_pid_of_another_program_does_not_keep_the_server_down(checkout: Path) -> None:
    with held(checkout) as cluster:
        cluster.stop()
        cluster.pid_file.write_text(f"{os.getpid()}\n{cluster.data}\n")
        assert cluster.process() is None
        cluster.start()
        assert cluster.process() is not None


def test_a_half_made_data_folder_is_thrown_away(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> None:
    made = cluster_of(checkout)
    fresh = replace(made, folder=place_of(checkout) / "fresh")
    (fresh.folder / "data.new").mkdir(parents=True)
    (fresh.folder / "data.new" / "PG_VERSION").write_text("18\n")
    fresh.start()
    try:
        assert setting(fresh, "server_encoding") == "UTF8"
        assert not (fresh.folder / "data.new").exists()
    finally:
        fresh.stop()


def test_a_failed_start_tells_what_the_server_said(checkout: Path) -> None:
    with held(checkout) as cluster:
        cluster.stop()
        wrong = replace(cluster, settings={"max_connections": "many"})
        with pytest.raises(ClusterFailed, match='invalid value for parameter "max_connections": "many"') as caught:
            wrong.start()
        assert "make remove-db" in str(caught.value)


def test_an_address_carries_folder_and_port() -> None:
    plain = Cluster(folder=Path("/srv/a b"), binaries=Path("/bin"))
    assert plain.url("ledgence") == "postgresql://postgres@/ledgence?host=/srv/a%20b/socket"
    assert replace(plain, settings={"port": "6543"}).url("x").endswith("/socket&port=6543")
