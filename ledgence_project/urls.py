"""Addresses of the project: Django admin, and its static files while DEBUG is on."""

from django.contrib import admin
from django.contrib.staticfiles.urls import staticfiles_urlpatterns
from django.urls import include, path

# gunicorn serves no static files of its own; outside DEBUG a web server or object store does.
urlpatterns = [
    path("admin/", admin.site.urls),
    # Under ASGI the task service has answered before Django: see asgi.py.
    path("ledgence/", include("ledgence.urls")),
    *staticfiles_urlpatterns(),
]
