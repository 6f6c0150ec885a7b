"""What is said when ElasticMQ cannot be fetched, and that it is fetched once."""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ledgence_project.elasticmq import ServerFailed, SqsProcess
from ledgence_project.elasticmq.jars import POM

FETCHING = """#!/bin/sh
echo called >>"$0.calls"
for word; do
    case $word in -DoutputDirectory=*) mkdir -p "${word#*=}" ;; esac
done
"""
FAILING = "#!/bin/sh\necho '[ERROR] Could not transfer artifact: Connection refused'\nexit 1\n"


def place(folder: Path, name: str, script: str = "#!/bin/sh\n") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(script)
    path.chmod(0o755)
    return path


def fetch(home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Fetch on a machine that has only the programs in ``home/bin``, and those of every shell."""
    environment = {"PATH": f"{home / 'bin'}:{home / 'shell'}", "XDG_CACHE_HOME": str(home / "cache")} | variables
    environment["PYTHONPATH"] = ":".join(sys.path)
    place(home / "shell", "mkdir", '#!/bin/sh\nexec /bin/mkdir "$@"\n')
    command = [sys.executable, "-m", "ledgence_project.elasticmq"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_missing_java_is_said_with_what_to_install(tmp_path: Path) -> None:
    place(tmp_path / "bin", "mvn", FETCHING)
    done = fetch(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no java on the PATH" in done.stderr
    assert "apt-get install default-jre-headless" in done.stderr
    done = fetch(tmp_path, JAVA_HOME=str(tmp_path / "jdk"))
    assert done.returncode == 1
    assert f"there is no java in JAVA_HOME={tmp_path / 'jdk'}" in done.stderr


def test_missing_maven_is_said_with_what_to_install(tmp_path: Path) -> None:
    place(tmp_path / "bin", "java")
    done = fetch(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no mvn on the PATH" in done.stderr
    assert "apt-get install maven" in done.stderr


def test_what_maven_says_is_passed_on_and_nothing_is_left(tmp_path: Path) -> None:
    place(tmp_path / "bin", "java")
    place(tmp_path / "bin", "mvn", FAILING)
    done = fetch(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Maven could not fetch ElasticMQ. It must reach Maven Central" in done.stderr
    assert "It ended with 1:" in done.stderr
    assert "[ERROR] Could not transfer artifact: Connection refused" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "cache" / "ledgence").iterdir()) == []


def test_it_is_fetched_once(tmp_path: Path) -> None:
    place(tmp_path / "bin", "java")
    maven = place(tmp_path / "bin", "mvn", FETCHING)
    for _ in range(2):
        done = fetch(tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"ElasticMQ is in {tmp_path / 'cache' / 'ledgence'}/elasticmq-")
    assert maven.with_name("mvn.calls").read_text() == "called\n"


@pytest.mark.parametrize("kind", ["dependency", "plugin"])
def test_every_version_is_pinned(kind: str) -> None:
    found = re.findall(rf"<{kind}>.*?<version>([^<]*)</version>\s*</{kind}>", POM.read_text(), re.DOTALL)
    assert len(found) == 1
    assert found[0].replace(".", "").isdigit()


def test_a_server_that_ends_at_its_start_is_told_with_its_log() -> None:
    class Failing(SqsProcess):
        def command(self) -> Sequence[str]:
            return ["/bin/sh", "-c", "echo no memory >&2; exit 3"]

    with pytest.raises(ServerFailed, match="Failing did not start on port [0-9]+:\nno memory"):
        Failing().start()
    with pytest.raises(ServerFailed, match="is not running"):
        Failing().freeze()
