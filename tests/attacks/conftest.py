"""The scene of the fault tests, with the programs of the attacks."""

from tests.faults.conftest import lease_seconds, shared_settings, site

__all__ = ["lease_seconds", "shared_settings", "site"]
