"""The programs of ElasticMQ: fetched once from Maven Central into the user's cache, as pom.xml pins them."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

POM: Final = Path(__file__).with_name("pom.xml")
FETCH_SECONDS: Final = 600.0
#: A repository that cannot be reached is told in seconds. Maven has two kinds of transport, by its version.
_TIMEOUTS: Final = (
    "-Dmaven.wagon.http.connectionTimeout=10000",
    "-Dmaven.wagon.rto=60000",
    "-Daether.connector.connectTimeout=10000",
    "-Daether.connector.requestTimeout=60000",
)
_ERROR_LINES: Final = 4
#: Maven resets a terminal's colours also where there is no terminal.
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


class ElasticMQMissing(Exception):
    """ElasticMQ cannot be run or fetched here; the text says what is missing and how to get it."""


def jars() -> Path:
    """Return the folder of ElasticMQ's programs. Raises ElasticMQMissing if they were not fetched."""
    folder = _folder()
    if not folder.exists():
        raise ElasticMQMissing(f"ElasticMQ is not in {folder}: run 'make elasticmq', which fetches it.")
    return folder


def java() -> str:
    """Return the Java program: that of JAVA_HOME, or of the PATH. Raises ElasticMQMissing."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if program is None:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise ElasticMQMissing(
            f"ElasticMQ needs Java, and there is no java {where}. Debian: apt-get install default-jre-headless"
        )
    return program


def fetch() -> Path:
    """Fetch the programs unless they are here, and return their folder. Raises ElasticMQMissing."""
    folder = _folder()
    java()
    if folder.exists():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise ElasticMQMissing(
            "Maven is needed to fetch ElasticMQ, and there is no mvn on the PATH. Debian: apt-get install maven"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="elasticmq-", dir=folder.parent) as made:
        _copy_dependencies(maven, Path(made) / "jars")
        try:
            (Path(made) / "jars").rename(folder)
        except OSError:
            # Another process was quicker; what it fetched is the same.
            if not folder.exists():
                raise
    return folder


def _folder() -> Path:
    # Another pom.xml is another folder: what was fetched for the old one is not taken for the new.
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "ledgence" / f"elasticmq-{digest}"


def _copy_dependencies(maven: str, folder: Path) -> None:
    command = [maven, "--batch-mode", "--quiet", "--strict-checksums", *_TIMEOUTS]
    # By its whole name: where nothing can be fetched, Maven would say of the short one that there is no such plugin.
    command += ["--file", str(POM), "org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ElasticMQMissing(f"Maven did not fetch ElasticMQ within {FETCH_SECONDS:.0f} s.") from None
    if done.returncode or not folder.exists():
        said = "\n".join(_COLOUR.sub("", done.stdout).strip().splitlines()[:_ERROR_LINES])
        raise ElasticMQMissing(
            "Maven could not fetch ElasticMQ. It must reach Maven Central, or a mirror that its settings name."
            f" It ended with {done.returncode}:\n{said}"
        )
