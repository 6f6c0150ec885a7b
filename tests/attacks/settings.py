"""The fault tests' settings with the programs of the attacks."""

from tests.faults.settings import *  # noqa: F403 - every setting is meant
from tests.faults.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.attacks.beasts"]
