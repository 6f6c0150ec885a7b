"""Settings of the project that ships with a checkout: what differs by machine comes from the environment."""

from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()


def _secret_key() -> str:
    key: str = env.str("SECRET_KEY", default="development-only" if DEBUG else "")
    if not key:
        raise ImproperlyConfigured("SECRET_KEY is not set. Set it to a long random text, or set DEBUG=true.")
    return key


def _database() -> dict[str, Any]:
    if not env.str("DATABASE_URL", default=""):
        raise ImproperlyConfigured(
            "DATABASE_URL is not set. Set it to postgresql://USER:PASSWORD@HOST/NAME, or let the embedded database "
            "set it: 'make demo', or 'python -m ledgence_project.embedded run -- COMMAND'."
        )
    database: dict[str, Any] = env.db("DATABASE_URL")
    # A Unix socket's folder cannot stand where the host does in an address; Django's dbshell looks only there.
    options = database.setdefault("OPTIONS", {})
    for option, setting in (("host", "HOST"), ("port", "PORT")):
        if option in options:
            database[setting] = str(options.pop(option))
    database["CONN_MAX_AGE"] = env.int("CONN_MAX_AGE", default=60)
    database["CONN_HEALTH_CHECKS"] = True
    return database


DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = _secret_key()
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "ledgence",
    "ledgence_project.demo",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "ledgence_project.urls"
WSGI_APPLICATION = "ledgence_project.wsgi.application"
ASGI_APPLICATION = "ledgence_project.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {"default": _database()}
# The default since Django 6.0; Django 5.2 is supported too.
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]

LEDGENCE = {
    "LEASE_SECONDS": env.float("LEDGENCE_LEASE_SECONDS", default=60.0),
    # What this module reads in the processes of programs too; DATABASE_URL and LANG pass anyway.
    "CHILD_ENV": ("DEBUG", "SECRET_KEY", "ALLOWED_HOSTS", "CONN_MAX_AGE", "LOG_LEVEL", "LEDGENCE_LEASE_SECONDS"),
}

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name} [{process}] {message}", "style": "{"},
    },
    "handlers": {
        "console": {"class": "logging.StreamHandler", "formatter": "line"},
    },
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        name: {"level": env.str("LOG_LEVEL", default="INFO").upper()} for name in ("ledgence", "ledgence_worker")
    },
}
