"""The project's settings with the zoo of hostile programs; a worker under test reads what differs from variables."""

import os

from ledgence_project.settings import *  # noqa: F403 - every setting is meant
from ledgence_project.settings import INSTALLED_APPS, LEDGENCE

INSTALLED_APPS = [*INSTALLED_APPS, "tests.faults.zoo"]
LEDGENCE = {**LEDGENCE, "HINTS": os.environ.get("ZOO_HINTS") != "off"}
