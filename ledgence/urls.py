"""The task service inside Django, for WSGI and runserver: ``path("ledgence/", include("ledgence.urls"))``."""

from django.urls import re_path

from ledgence.http.views import answer

app_name = "ledgence"
urlpatterns = [re_path(r"^v1/(?P<path>(?s:.*))\Z", answer, name="task-service")]
