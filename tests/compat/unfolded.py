"""The project's settings with django-unfold, which replaces the admin's site and templates."""

from ledgence_project.settings import *  # noqa: F403 - every setting is meant
from ledgence_project.settings import INSTALLED_APPS

INSTALLED_APPS = ["unfold", *INSTALLED_APPS]
