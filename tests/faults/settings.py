"""The project's settings with the zoo of hostile programs; a worker under test reads what differs from variables."""

import os

from ledgence_project.settings import *  # noqa: F403 - every setting is meant
from ledgence_project.settings import DATABASES, INSTALLED_APPS, LEDGENCE

INSTALLED_APPS = [*INSTALLED_APPS, "tests.faults.zoo"]
ROOT_URLCONF = os.environ.get("ZOO_ADDRESSES", "ledgence_project.urls")
# Read in managed processes too, which see this name.
DATABASES["default"]["CONN_HEALTH_CHECKS"] = os.environ.get("LEDGENCE_CHILD_HEALTH_CHECKS") != "off"
LEDGENCE = {
    **LEDGENCE,
    "HINTS": os.environ.get("ZOO_HINTS") != "off",
    "SESSION_SECONDS": float(os.environ.get("ZOO_SESSION_SECONDS", "86400")),
}
