"""Settings of Maven that lie in the workspace: read before they count."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.safety.commands.assessor import Assessor
from agent.safety.places import Places

CENTRAL = """<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors><mirror>
<id>central</id><url>https://repo.maven.apache.org/maven2</url></mirror></mirrors></settings>"""


def _says(root: Path, command: str) -> str:
    work = root / "work"
    work.mkdir(exist_ok=True)
    return Assessor(Places(str(root / "home"), (), ()), work).assess(command, work).kind


def test_settings_that_name_the_central_repository_pass(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "ci.xml").write_text(CENTRAL)
    assert _says(tmp_path, "mvn -s ci.xml test") == "allow"
    assert _says(tmp_path, "mvn --settings=ci.xml test") == "allow"


@pytest.mark.parametrize(
    "held",
    [
        CENTRAL.replace("repo.maven.apache.org", "repo.example.com"),
        CENTRAL.replace("<mirrors>", "<properties><argLine>-javaagent:x.jar</argLine></properties><mirrors>"),
        CENTRAL.replace("https://repo", "&#104;ttps://repo"),
        "<server><password>x</password></server>",
    ],
)
def test_settings_that_lead_elsewhere_or_start_something_ask(tmp_path: Path, held: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "ci.xml").write_text(held)
    assert _says(tmp_path, "mvn -s ci.xml test") == "ask"


def test_settings_that_cannot_be_read_beforehand_ask(tmp_path: Path) -> None:
    assert _says(tmp_path, "mvn -s missing.xml test") == "ask"
    (tmp_path / "work" / "ci.xml").write_text(CENTRAL)
    assert _says(tmp_path, "mvn -s ../ci.xml test") == "ask"
    assert _says(tmp_path, "echo x > ci.xml; mvn -s ci.xml test") == "ask"
