"""The Django application of the demonstration."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    """Programs without tables."""

    name = "ledgence_project.demo"
    label = "ledgence_demo"
