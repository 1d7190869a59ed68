"""Two network namespaces of this machine, joined by a link of limited rate: two hosts, as far as processes can tell.

Only traffic between the two passes the link; neither reaches anything else. Needs Linux, root and iproute2.
"""

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NETNS_FILES = Path("/etc/netns")  # `ip netns exec` shows NETNS_FILES/NAME/hosts as /etc/hosts
SUBNET = "10.213.17"
SECONDS = 20  # for one command of iproute2


class LinkError(Exception):
    """This machine cannot make the link; one line."""


@dataclass(frozen=True)
class Side:
    """One end of the link."""

    namespace: str
    address: str

    @property
    def prefix(self) -> list[str]:
        """What to put before a command, to run it here."""
        return ["ip", "netns", "exec", self.namespace]


def missing() -> str | None:
    """What this machine lacks for a link; None if nothing that shows without trying."""
    if not hasattr(os, "geteuid") or not shutil.which("ip") or not shutil.which("tc"):
        return "needs Linux and iproute2: apt-get install iproute2"
    return None if os.geteuid() == 0 else "needs root, to make network namespaces"


@contextlib.contextmanager
def slow_link(rate: str) -> Iterator[tuple[Side, Side]]:
    """Both sides of a link of `rate` (as for tc: `1gbit`) per direction, for as long as the block lasts.

    Raises LinkError when the machine does not allow it.
    """
    if reason := missing():
        raise LinkError(reason)
    near, far = (Side(f"paropt{os.getpid()}{end}", f"{SUBNET}.{end}") for end in (1, 2))
    sides = near, far
    try:
        _connect(sides, rate)
        yield sides
    finally:
        for side in sides:
            with contextlib.suppress(LinkError):
                _run("ip", "netns", "del", side.namespace)  # and its end of the link
            shutil.rmtree(NETNS_FILES / side.namespace, ignore_errors=True)
        with contextlib.suppress(OSError):
            NETNS_FILES.rmdir()  # unless there is something else in it


def _connect(sides: tuple[Side, ...], rate: str) -> None:
    for side in sides:
        _run("ip", "netns", "add", side.namespace)
        folder = NETNS_FILES / side.namespace
        folder.mkdir(parents=True)
        # Processes find their own address by the name of the host.
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{side.address} {socket.gethostname()}\n")
    left, right = (side.namespace for side in sides)
    _run("ip", "link", "add", "wire", "netns", left, "type", "veth", "peer", "name", "wire", "netns", right)
    for side in sides:
        _run("ip", "-n", side.namespace, "addr", "add", f"{side.address}/24", "dev", "wire")
        _run("ip", "-n", side.namespace, "link", "set", "wire", "up")
        _run("ip", "-n", side.namespace, "link", "set", "lo", "up")
        bucket = ("tbf", "rate", rate, "burst", "256kb", "latency", "50ms")
        _run("tc", "-n", side.namespace, "qdisc", "add", "dev", "wire", "root", *bucket)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing"])[0]
        raise LinkError(f"`{' '.join(command)}` says: {said}")
