"""The project's settings for the type checker, which reads the models and connects to nothing."""

import os

os.environ.setdefault("DATABASE_URL", "postgresql:///never-connected")
os.environ.setdefault("SECRET_KEY", "never-used")

from ledgence_project.settings import *  # noqa: E402, F403 - the variables must stand first; every setting is meant
