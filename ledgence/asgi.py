"""The task service before Django's ASGI handler: ``application = ledgence.asgi.wrap(get_asgi_application())``."""

from ledgence.http.server import wrap

__all__ = ["wrap"]
