"""The task service over HTTP: one set of handlers, served by ledgence.asgi before Django or by ledgence.urls in it."""
