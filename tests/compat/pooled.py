"""The settings of a project behind a pooler in transaction mode: nothing may belong to a session."""

from tests.faults.settings import *  # noqa: F403 - every setting is meant
from tests.faults.settings import DATABASES, LEDGENCE

DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True
DATABASES["default"]["OPTIONS"]["prepare_threshold"] = None
# LISTEN hears nothing through it, so that workers ask once a second.
LEDGENCE = {**LEDGENCE, "HINTS": False}
