"""The admin's demonstration: a server over a ledger in which everything goes wrong, and who may look at it."""

import os
import secrets
import signal
import subprocess
import sys
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ledgence.conf import get_settings
from ledgence_project.demo.demonstration import MANAGE
from ledgence_project.demo.incidents import Incidents
from ledgence_project.demo.scratch import scratch_database

USER = "admin"
#: How often the workers that are still alive are heard of.
PLAY_SECONDS = 5.0


class Command(BaseCommand):
    help = "Serve the admin over a database of its own with stuck, expired, failed, quarantined and paused examples."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--address", default="127.0.0.1:8000", metavar="HOST:PORT", help="where to serve")

    def handle(self, **options: Any) -> None:
        # SIGTERM ends it as Ctrl-C does: with what it started and made cleared away.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        using = get_settings().database
        with scratch_database(using):
            password = secrets.token_urlsafe(9)
            get_user_model().objects.db_manager(using).create_superuser(USER, password=password)
            incidents = Incidents(using)
            incidents.make()
            # Without reloading: it would look at every file of the checkout.
            command = [sys.executable, str(MANAGE), "runserver", "--noreload", options["address"]]
            with subprocess.Popen(command, env=os.environ | {"DEBUG": "true", "LOG_LEVEL": "WARNING"}) as server:
                self.stdout.write(f"address   http://{options['address']}/admin/ledgence/")
                self.stdout.write(f"user      {USER}\npassword  {password}\nstop it with Ctrl-C")
                try:
                    while server.poll() is None:
                        incidents.play()
                        _wait(server)
                except KeyboardInterrupt:
                    server.terminate()
                    return
        if server.returncode:
            raise CommandError(f"the server has ended by itself; see above (exit status {server.returncode})")


def _wait(server: "subprocess.Popen[bytes]") -> None:
    try:
        server.wait(PLAY_SECONDS)
    except subprocess.TimeoutExpired:
        return
