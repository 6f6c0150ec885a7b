"""The environment variables that a command gets beside the embedded database."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
DATABASE = "ledgence"
DEVELOPMENT_KEY = "embedded-database-development-only"


def environment(url: str) -> dict[str, str]:
    """Return this process's environment with the database's address, and a key for development if it has none."""
    return {"SECRET_KEY": DEVELOPMENT_KEY, **os.environ, "DATABASE_URL": url}
