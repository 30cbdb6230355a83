"""What containers do to the folders that are mounted into them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.safety.hardline import Hardline
from agent.safety.places import Places

HARDLINE = Hardline(Places(home="/home/ada"))
HERE = Path("/home/ada/project")


@pytest.mark.parametrize(
    "command",
    [
        "docker run -v /:/h alpine rm -rf /h",
        "docker run --rm -v/:/h alpine rm -rf /h/usr",
        "podman run --rm --volume=/:/host:rw busybox sh -c 'cd /host && rm -rf .'",
        "docker run --mount type=bind,src=/,dst=/x alpine sh -c 'rm -rf /x/*'",
        "docker run -itv /:/h -w /h alpine rm -rf .",
        "docker run -v /:/h --entrypoint rm alpine -rf /h/etc",
        "docker run -v /:/h alpine rm -rf /",
        "docker run -v /dev:/d alpine dd if=/dev/zero of=/d/sda",
        "docker run -v /etc:/e alpine sh -c 'echo x > /e/passwd'",
        "docker run --privileged -v /:/h alpine chroot /h sh -c 'rm -rf /usr'",
        "sudo nerdctl run -v $HOME:/data alpine find /data -delete",
    ],
)
def test_a_container_that_wipes_the_machine_is_refused(command: str) -> None:
    assert HARDLINE.check(command, HERE)


@pytest.mark.parametrize(
    "command",
    [
        "docker run alpine rm -rf /",
        "docker run -v data:/d alpine rm -rf /d",
        "docker run -v /:/h:ro alpine rm -rf /h",
        "docker run --mount type=bind,src=/,dst=/x,readonly alpine rm -rf /x",
        "docker run -v /srv/data/old:/d alpine rm -rf /d",
        "docker run -v .:/w -w /w alpine rm -rf build",
        "docker run -v /:/h alpine ls /h",
        "docker run",
        "docker ps -v",
    ],
)
def test_what_stays_inside_or_can_be_made_again_is_left_to_the_person(command: str) -> None:
    assert not HARDLINE.check(command, HERE)
