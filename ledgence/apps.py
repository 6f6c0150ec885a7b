"""The Django application."""

from django.apps import AppConfig


class LedgenceConfig(AppConfig):
    """The ledger of tasks, attempts, leases and deliveries."""

    name = "ledgence"
    label = "ledgence"
    verbose_name = "Ledgence"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks."""
        from ledgence import checks  # noqa: F401 - importing it registers them
