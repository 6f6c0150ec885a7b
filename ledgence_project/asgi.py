"""The ASGI entry point of the project."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ledgence_project.settings")

django = get_asgi_application()

# What uses models can be imported only now.
from ledgence.asgi import wrap  # noqa: E402

# Tests look at leases that are over, which nobody may end meanwhile.
application = wrap(django, housekeeping=os.environ.get("LEDGENCE_HOUSEKEEPING") != "off")
