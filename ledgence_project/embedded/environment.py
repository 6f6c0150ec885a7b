"""The environment variables that a command gets beside the embedded database."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
DATABASE = "ledgence"


def environment(url: str) -> dict[str, str]:
    """Return this process's environment with the database's address, and a key that only development may use."""
    return {"SECRET_KEY": "embedded-database-development-only", **os.environ, "DATABASE_URL": url}
