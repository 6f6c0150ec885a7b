"""The project's ASGI application with little patience, for tests of what takes long."""

import sys

from ledgence_project.asgi import application

__all__ = ["application"]

# Not imported: what uses models can be only after the application was made.
sys.modules["ledgence.http.body"].BODY_SECONDS = 0.5  # type: ignore[attr-defined]
