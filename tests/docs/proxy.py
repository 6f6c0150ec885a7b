"""nginx with the configuration of docs/deploy.md, before a web process of the test's own."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.docs.reading import DOCS, blocks
from tests.docs.serving import stop
from tests.faults.waiting import wait_until

PROGRAM = "nginx"
MAIN = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log info;
{user}
worker_processes 1;
events {{ worker_connections 256; }}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/tasks.conf;
}}
"""


def needed(program: str) -> str:
    """Return a program's path. It is Debian's package of that name."""
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        raise AssertionError(f"{program} is missing: install Debian's package {program}, as .ci/run does.")
    return found


def configure(folder: Path, port: int, upstream: int) -> Path:
    """Write the page's configuration for this machine, with a certificate; return the main file."""
    [text] = [block.text for block in blocks(DOCS / "deploy.md") if block.language == "nginx"]
    here = {
        "server unix:/run/shop/web.sock": f"server 127.0.0.1:{upstream}",
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/ssl/tasks.example.com/fullchain.pem": str(folder / "certificate.pem"),
        "/etc/ssl/tasks.example.com/privkey.pem": str(folder / "key.pem"),
        "/var/log/nginx/ledgence.log": str(folder / "ledgence.log"),
    }
    for there, own in here.items():
        assert text.count(there) == 1, there
        text = text.replace(there, own)
    make_certificate(folder)
    (folder / "tasks.conf").write_text(text)
    main = folder / "nginx.conf"
    # As root its processes would be another user, who may not enter the test's folder.
    main.write_text(MAIN.format(folder=folder, user="user root;" if os.geteuid() == 0 else ""))
    return main


def make_certificate(folder: Path) -> None:
    subprocess.run(
        [
            *(needed("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=tasks.example.com", "-addext", "subjectAltName=DNS:tasks.example.com,IP:127.0.0.1"),
            *("-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")),
        ],
        check=True,
        capture_output=True,
    )


def check(main: Path) -> str:
    """Let nginx check its configuration, and return what it says."""
    ran = subprocess.run(
        [needed(PROGRAM), "-t", "-p", str(main.parent), "-c", str(main)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


@contextmanager
def running(main: Path, port: int) -> Iterator[None]:
    """Run nginx until the block ends."""
    process = subprocess.Popen(
        [needed(PROGRAM), "-p", str(main.parent), "-c", str(main)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )

    def listens() -> bool:
        assert process.poll() is None, (main.parent / "error.log").read_text()
        return any(one.laddr.port == port for one in psutil.Process(process.pid).net_connections("tcp4"))

    try:
        wait_until(listens, "nginx to listen")
        yield
    finally:
        stop(process)
