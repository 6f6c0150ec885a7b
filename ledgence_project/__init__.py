"""The Django project that ships with a checkout: settings, addresses, and the embedded database for development."""
