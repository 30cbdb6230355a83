"""Each kind of source against a server on loopback, with answers as their documentation shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.knowledge.skills.hub.bundle import (
    FetchedSkill,
    HubError,
    HubMissingError,
    HubRefusedError,
    SkillSource,
    SourceKind,
)
from agent.knowledge.skills.hub.opening import SkillSources, SourcePlace
from tests.support.skill_hub import (
    HubServer,
    answer,
    digest,
    git_repository,
    github,
    hub_server,
    run_git,
    skill_md,
    tarred,
    zipped,
)

FILES = {
    "README.md": b"Hello\n",
    "skills/pdf/SKILL.md": skill_md("pdf", "See [more](references/more.md)."),
    "skills/pdf/references/more.md": b"More\n",
    "skills/pdf/scripts/run.sh": b"#!/bin/sh\necho hi\n",
    "skills/notes/SKILL.md": skill_md("notes"),
}


def source(kind: SourceKind, url: str, **more: Any) -> SkillSource:
    return SkillSources(Path("/"), **more).open(SourcePlace("test", kind, url))


def paths(fetched: FetchedSkill) -> list[str]:
    return [file.path for file in fetched.files]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "form", ["{url}/ana/tools", "{url}/repos/ana/tools", "{url}/ana/tools/tree/main/skills"]
)
def test_a_repository_on_github_is_searched_and_fetched(form: str) -> None:
    with hub_server(github("ana/tools", FILES, {"skills/pdf/scripts/run.sh": "100755"})) as hub:
        found = source("github", form.format(url=hub.url))
        assert [(each.name, each.item) for each in found.search("", 9)] == [
            ("notes", "skills/notes"),
            ("pdf", "skills/pdf"),
        ]
        assert [each.description for each in found.search("PDF about", 9)] == ["About pdf."]
        fetched = found.fetch("pdf")
        assert paths(fetched) == ["SKILL.md", "references/more.md", "scripts/run.sh"]
        assert [file.executable for file in fetched.files] == [False, False, True]
        assert len(fetched.offer.version) == 40 and fetched.offer.origin == ""


def test_a_server_without_commits_or_blobs_is_read_by_branch_and_contents() -> None:
    routes = github("ana/tools", FILES)
    rows = next(value for key, value in routes.items() if "/git/trees/" in key)
    routes = {
        "/repos/ana/tools": routes["/repos/ana/tools"],
        "/repos/ana/tools/git/trees/main?recursive=1": rows,
    }
    routes |= {f"/ana/tools/main/{path}": content for path, content in FILES.items()}
    with hub_server(routes) as hub:
        fetched = source("github", f"{hub.url}/ana/tools").fetch("skills/notes")
        assert paths(fetched) == ["SKILL.md"] and fetched.offer.version == "main"


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("files", "modes", "says"),
    [
        ({"s/SKILL.md": skill_md("s"), "s/x": b"/etc/passwd"}, {"s/x": "120000"}, "is a link"),
        ({"s/SKILL.md": skill_md("s"), "s/sub": b""}, {"s/sub": "160000"}, "is a submodule"),
        ({"s/SKILL.md": skill_md("s"), "s/big.txt": b"x" * 256_001}, {}, "larger than 256,000"),
        ({"s/SKILL.md": skill_md("s")} | {f"s/{n}.md": b"" for n in range(50)}, {}, "more than 50 files"),
        ({"s/SKILL.md": skill_md("s"), "s/a\\b": b""}, {}, "not a path below"),
        ({"s/SKILL.md": skill_md("s"), "s/A.md": b"", "s/a.md": b""}, {}, "some disks take for one"),
        ({"s/SKILL.md": skill_md("s"), "s/run": b"\x7fELF\0"}, {}, "compiled program"),
        ({"s/SKILL.md": skill_md("s"), "s/x.zip": b"PK\x03\x04"}, {}, "is an archive"),
        ({"s/SKILL.md": skill_md("s"), "s/x.png": b"\x89PNG\0"}, {}, "is not text"),
    ],
)
def test_a_tree_with_more_than_a_skill_may_have_is_refused(
    files: dict[str, bytes], modes: dict[str, str], says: str
) -> None:
    with hub_server(github("ana/tools", files, modes)) as hub:
        with pytest.raises(HubRefusedError, match=says):
            source("github", f"{hub.url}/ana/tools").fetch("s")


def test_a_blob_that_is_not_what_its_tree_says_is_refused() -> None:
    routes = github("ana/tools", FILES)
    other = github("ana/tools", {"skills/pdf/SKILL.md": skill_md("pdf", "Other.")})
    lie = next(value for key, value in other.items() if "/blobs/" in key)
    key = next(key for key, value in routes.items() if "/blobs/" in key and "cGRm" in str(value))
    with hub_server(routes | {key: lie}) as hub:
        with pytest.raises(HubRefusedError, match="is not the file that its commit names"):
            source("github", f"{hub.url}/ana/tools").fetch("pdf")


def test_what_a_repository_lacks_is_said_with_what_it_has() -> None:
    with hub_server(github("ana/tools", FILES)) as hub:
        with pytest.raises(HubMissingError, match=r"no skill 'gone'; it has skills/notes, skills/pdf"):
            source("github", f"{hub.url}/ana/tools").fetch("gone")
        with pytest.raises(HubMissingError, match="2 skills, so name one"):
            source("github", f"{hub.url}/ana/tools").fetch("")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git_repository(folder, FILES)
    return folder


def test_a_git_repository_is_searched_and_fetched_at_its_commit(repository: Path) -> None:
    first = run_git(repository, "rev-parse", "HEAD")
    run_git(repository, "tag", "v1")
    git_repository(repository, {"skills/pdf/SKILL.md": skill_md("pdf", "Newer.")})
    found = source("git", f"file://{repository}")
    assert [each.name for each in found.search("", 9)] == ["notes", "pdf"]
    assert b"Newer." in found.fetch("pdf").files[0].content
    old = found.fetch("pdf", "v1")
    assert b"Newer." not in old.files[0].content and old.offer.version == first
    with pytest.raises(HubMissingError):
        found.fetch("pdf", "v2")


def test_a_repository_on_a_server_of_plain_files_is_fetched(repository: Path) -> None:
    run_git(repository, "update-server-info")
    routes = {
        f"/tools.git/{path.relative_to(repository / '.git')}": path.read_bytes()
        for path in (repository / ".git").rglob("*")
        if path.is_file()
    }
    with hub_server(routes) as hub:
        for path in list(routes):
            hub.routes[f"{path}?service=git-upload-pack"] = routes[path]
        assert paths(source("git", f"{hub.url}/tools.git").fetch("notes")) == ["SKILL.md"]


def test_nothing_that_a_repository_brings_is_run_or_followed(tmp_path: Path) -> None:
    folder, mark = tmp_path / "evil", tmp_path / "ran"
    folder.mkdir()
    run_git(folder, "init", "-q", "-b", "main")
    script = f"#!/bin/sh\ntouch {mark}\n"
    for hook in ("post-checkout", "post-merge", "reference-transaction", "pre-push", "post-update"):
        (folder / ".git" / "hooks").mkdir(exist_ok=True)
        (folder / ".git" / "hooks" / hook).write_text(script)
        (folder / ".git" / "hooks" / hook).chmod(0o755)
    run_git(folder, "config", "filter.evil.smudge", f"touch {mark}")
    run_git(folder, "config", "core.fsmonitor", f"touch {mark}")
    run_git(folder, "config", "uploadpack.packObjectsHook", f"touch {mark}")
    files = {"s/SKILL.md": skill_md("s"), ".gitattributes": b"* filter=evil\n", "ok/SKILL.md": skill_md("ok")}
    files[".gitmodules"] = f'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "touch {mark}"\n'.encode()
    git_repository(folder, files, links={"s/secret": "/etc/passwd"})
    mark.unlink(missing_ok=True)
    found = source("git", f"file://{folder}")
    assert paths(found.fetch("ok")) == ["SKILL.md"]
    with pytest.raises(HubRefusedError, match="is a link"):
        found.fetch("s")
    assert not mark.exists()


def test_git_is_not_led_to_another_origin(repository: Path) -> None:
    with hub_server() as other, hub_server() as hub:
        target = {"Location": f"{other.url}/tools.git/info/refs"}
        for path in ("/t.git/info/refs?service=git-upload-pack", "/t.git/info/refs"):
            hub.routes[path] = lambda handler: answer(handler, b"", 302, target)
        with pytest.raises(HubError):
            source("git", f"{hub.url}/t.git").fetch("notes")
        assert other.asked == []


def test_git_that_never_answers_is_given_up(repository: Path) -> None:
    with hub_server() as hub:
        hub.routes["/t.git/info/refs?service=git-upload-pack"] = lambda handler: None
        with pytest.raises(HubError, match=r"did not deliver within 0\.5 seconds"):
            source("git", f"{hub.url}/t.git", git_seconds=0.5).fetch("notes")


def test_a_folder_is_searched_and_fetched(tmp_path: Path) -> None:
    for path, content in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    (tmp_path / "skills/pdf/scripts/run.sh").chmod(0o755)
    found = source("folder", str(tmp_path))
    assert [each.item for each in found.search("pdf", 9)] == ["skills/pdf"]
    assert [file.executable for file in found.fetch("pdf").files] == [False, False, True]
    assert source("folder", str(tmp_path / "skills/notes/SKILL.md")).inspect("").name == "notes"
    (tmp_path / "skills/pdf/link").symlink_to("/etc/passwd")
    with pytest.raises(HubRefusedError, match="is a link"):
        found = source("folder", str(tmp_path))
        found.fetch("pdf")
    with pytest.raises(HubMissingError, match="no folder"):
        source("folder", str(tmp_path / "gone"))


def test_what_ships_with_hermes_is_official(tmp_path: Path) -> None:
    sources = SkillSources(tmp_path)
    reference = sources.reference("official/planning")
    assert reference is not None
    offer = sources.open(reference.place).inspect(reference.item)
    assert offer.name == "planning" and offer.origin.startswith("official/")


ARCHIVE = tarred({"SKILL.md": skill_md("wrangler"), "scripts/deploy.sh": b"#!/bin/sh\n"})
REVIEW = skill_md("code-review")
INDEX = {
    "$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json",
    "skills": [
        {
            "name": "code-review",
            "type": "skill-md",
            "description": "Review code for bugs.",
            "url": "/.well-known/agent-skills/code-review/SKILL.md",
            "digest": digest(REVIEW),
        },
        {
            "name": "wrangler",
            "type": "archive",
            "description": "Deploy Workers.",
            "url": "wrangler.tar.gz",
            "digest": digest(ARCHIVE),
        },
        {"name": "later", "type": "hologram", "description": "x", "url": "/x", "digest": digest(b"")},
        {"name": "BAD NAME", "type": "skill-md", "description": "x", "url": "/x", "digest": digest(b"")},
    ],
}
SITE: dict[str, Any] = {
    "/.well-known/agent-skills/index.json": INDEX,
    "/.well-known/agent-skills/code-review/SKILL.md": REVIEW,
    "/.well-known/agent-skills/wrangler.tar.gz": ARCHIVE,
}


def test_a_site_lists_its_skills_with_digests() -> None:
    with hub_server(SITE) as hub:
        found = source("well-known", hub.url)
        assert [each.name for each in found.search("", 9)] == ["code-review", "wrangler"]
        assert paths(found.fetch("code-review")) == ["SKILL.md"]
        by_folder = source("well-known", f"{hub.url}/.well-known/agent-skills/")
        fetched = by_folder.fetch("wrangler")
        assert paths(fetched) == ["SKILL.md", "scripts/deploy.sh"]
        assert fetched.offer.version == digest(ARCHIVE) and fetched.notes == ()


def test_the_older_index_is_read_with_a_note_that_nobody_vouches_for_it() -> None:
    old = {
        "skills": [{"name": "pdf", "description": "About pdf.", "files": ["SKILL.md", "references/more.md"]}]
    }
    routes: dict[str, Any] = {
        "/.well-known/skills/index.json": old,
        "/.well-known/skills/pdf/SKILL.md": skill_md("pdf"),
        "/.well-known/skills/pdf/references/more.md": b"More\n",
    }
    with hub_server(routes) as hub:
        fetched = source("well-known", hub.url).fetch("pdf")
        assert paths(fetched) == ["SKILL.md", "references/more.md"] and "no digests" in fetched.notes[0]


def test_an_index_with_a_digest_per_file_is_checked_file_by_file() -> None:
    files = {"SKILL.md": skill_md("pdf"), "a.md": b"a"}
    listed = [{"path": path, "digest": digest(content)} for path, content in files.items()]
    index = {"version": "0.2.0", "skills": [{"name": "pdf", "description": "x", "files": listed}]}
    routes: dict[str, Any] = {f"/.well-known/agent-skills/pdf/{path}": body for path, body in files.items()}
    with hub_server(routes | {"/.well-known/agent-skills/index.json": index}) as hub:
        assert paths(source("well-known", hub.url).fetch("pdf")) == ["SKILL.md", "a.md"]
        hub.routes["/.well-known/agent-skills/pdf/a.md"] = b"b"
        with pytest.raises(HubRefusedError, match="is not what the index promises"):
            source("well-known", hub.url).fetch("pdf")


def entry(url: str, content: bytes, kind: str = "archive", name: str = "x") -> dict[str, Any]:
    record = {"name": name, "type": kind, "description": "x", "url": url, "digest": digest(content)}
    return {"$schema": INDEX["$schema"], "skills": [record]}


def test_an_index_cannot_send_to_another_origin() -> None:
    with hub_server({"/x": skill_md("x")}) as other, hub_server() as hub:
        hub.routes["/.well-known/agent-skills/index.json"] = entry(
            f"{other.url}/x", skill_md("x"), "skill-md"
        )
        with pytest.raises(HubRefusedError, match="another host is not asked"):
            source("well-known", hub.url).fetch("x")
        assert other.asked == []


@pytest.mark.parametrize(
    "index",
    [
        b"",
        b"[]",
        b"{",
        b'{"skills": 3}',
        b"[" * 50_000,
        b'{"skills": [], "$schema": "https://x/9"}',
        b'{"skills": [], "version": "7.0.0"}',
        b'{"skills": [{"name": "x", "files": [{"path": 3}]}]}',
        b'{"skills": [{"name": "x", "digest": "md5:1"}]}',
        b'{"skills": [{"name": "x", "files": ["../../y"]}]}',
        b'{"skills": [{"name": "x", "files": ["/etc/passwd"]}]}',
        b'\xff\xfe{"skills": []}',
        b'{"skills": [null, 3]}',
    ],
)
def test_an_index_that_is_broken_or_of_another_version_is_one_sentence(index: bytes) -> None:
    with hub_server({"/.well-known/agent-skills/index.json": index}) as hub:
        with pytest.raises(HubError) as caught:
            source("well-known", hub.url).fetch("x")
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


MARKET: dict[str, Any] = {
    "name": "ana-tools",
    "owner": {"name": "Ana"},
    "metadata": {"description": "Tools", "version": "1.0.0"},
    "plugins": [
        {
            "name": "document-skills",
            "description": "Documents",
            "source": "./",
            "strict": False,
            "skills": ["./skills/pdf", "./skills/notes"],
        },
        {"name": "one", "source": "./plugins/one", "description": "One"},
        {"name": "far", "description": "Far", "source": {"source": "github", "repo": "bob/far", "ref": "v2"}},
        {"name": "packed", "source": {"source": "npm", "package": "x"}},
        {"name": "inside", "source": {"source": "url", "url": "file:///etc"}},
    ],
}


def market_files(catalog: Any = MARKET) -> dict[str, bytes]:
    import json

    return FILES | {
        ".claude-plugin/marketplace.json": json.dumps(catalog).encode(),
        "plugins/one/skills/first/SKILL.md": skill_md("first"),
        "plugins/one/agents/x.md": b"An agent\n",
    }


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["github", "git", "folder"])
def test_the_skills_of_a_marketplace_are_those_of_its_plugins(how: str, tmp_path: Path) -> None:
    with hub_server(github("ana/market", market_files())) as hub:
        git_repository(tmp_path, market_files())
        places = {"github": f"{hub.url}/repos/ana/market", "git": f"{tmp_path}/.git", "folder": str(tmp_path)}
        address = f"git+file://{tmp_path}" if how == "git" else places[how]
        found = source("marketplace", address)
        items = [each.item for each in found.search("", 20)]
        assert items == ["document-skills/notes", "document-skills/pdf", "far", "inside", "one/first"]
        assert [each.item for each in found.search("documents pdf", 9)] == ["document-skills/pdf"]
        assert paths(found.fetch("document-skills/pdf"))[-1] == "scripts/run.sh"
        assert found.fetch("one").offer.name == "first"
        for item, says in (("packed", "not taken here"), ("inside", "only https"), ("gone", "no plugin")):
            with pytest.raises(HubError, match=says):
                found.fetch(item)


@pytest.mark.parametrize("form", ["", "/", "/.claude-plugin/marketplace.json"])
def test_a_marketplace_of_plain_files_is_read_as_far_as_its_documents_name_them(form: str) -> None:
    files = market_files()
    plugin = files.pop("plugins/one/skills/first/SKILL.md").replace(b"first", b"one")
    files |= {
        "plugins/one/skills/one/SKILL.md": plugin + b"Run `scripts/go.sh`, not ../../x or `scripts/no.sh`."
    }
    files["plugins/one/skills/one/scripts/go.sh"] = b"#!/bin/sh\n"
    with hub_server({f"/{path}": content for path, content in files.items()}) as hub:
        found = source("marketplace", f"{hub.url}{form}")
        assert paths(found.fetch("document-skills/pdf")) == ["SKILL.md", "references/more.md"]
        assert paths(found.fetch("one")) == ["SKILL.md", "scripts/go.sh"]
        assert not any(".." in path for path in hub.asked)


@pytest.mark.parametrize("bad", [[], {}, {"plugins": 1}, {"plugins": [{"name": "x", "source": "../up"}]}])
def test_a_marketplace_that_is_broken_is_one_sentence(bad: Any, tmp_path: Path) -> None:
    git_repository(tmp_path, market_files(bad))
    with pytest.raises(HubError) as caught:
        source("marketplace", str(tmp_path)).fetch("x")
    assert str(caught.value).endswith(".")


GIF = zipped({"SKILL.md": skill_md("gifgrep"), "scripts/g.sh": b"#!/bin/sh\n", "_meta.json": b"{}"})
CLAW: dict[str, Any] = {
    "/api/v1/search?q=gif&limit=5": {
        "results": [
            {
                "score": 0.123,
                "slug": "gifgrep",
                "displayName": "GifGrep",
                "summary": "Find gifs",
                "version": "1.2.3",
                "updatedAt": 1730000000000,
            }
        ]
    },
    "/api/v1/skills/gifgrep": {
        "skill": {
            "slug": "gifgrep",
            "displayName": "GifGrep",
            "summary": "Find gifs",
            "tags": {"latest": "1.2.3"},
            "stats": {},
            "createdAt": 0,
            "updatedAt": 0,
        },
        "latestVersion": {"version": "1.2.3", "createdAt": 0, "changelog": "…"},
        "metadata": None,
        "owner": {"handle": "ana", "displayName": "Ana", "image": None},
        "moderation": {
            "isSuspicious": True,
            "isMalwareBlocked": False,
            "verdict": "suspicious",
            "summary": "Eval",
        },
    },
    "/api/v1/download?slug=gifgrep&version=1.2.3": GIF,
}


def test_clawhub_is_searched_and_its_zip_is_fetched() -> None:
    with hub_server(CLAW) as hub:
        found = source("clawhub", hub.url)
        assert [(each.item, each.version) for each in found.search("gif", 5)] == [("gifgrep", "1.2.3")]
        fetched = found.fetch("gifgrep")
        assert paths(fetched) == ["SKILL.md", "scripts/g.sh"] and fetched.offer.version == "1.2.3"
        assert fetched.offer.notes == ("published by ana", "the registry itself calls it suspicious: Eval")


def test_what_clawhub_itself_blocks_is_refused() -> None:
    blocked = CLAW["/api/v1/skills/gifgrep"] | {"moderation": {"isMalwareBlocked": True}}
    with hub_server(CLAW | {"/api/v1/skills/gifgrep": blocked}) as hub:
        with pytest.raises(HubRefusedError, match="blocks"):
            source("clawhub", hub.url).fetch("gifgrep")


def test_a_zip_that_is_not_what_its_header_says_is_refused() -> None:
    with hub_server(CLAW) as hub:
        lie = {"X-ClawHub-Artifact-Sha256": "0" * 64}
        hub.routes["/api/v1/download?slug=gifgrep&version=1.2.3"] = lambda handler: answer(
            handler, GIF, 200, lie
        )
        with pytest.raises(HubRefusedError, match="another archive than it says"):
            source("clawhub", hub.url).fetch("gifgrep")


LOBE: dict[str, Any] = {
    "/api/v1/skills?page=1&pageSize=5&q=pdf": {
        "currentPage": 1,
        "items": [
            {
                "identifier": "ana-pdf",
                "name": "pdf",
                "description": "About pdf.",
                "author": "Ana",
                "version": "1.0.0",
            }
        ],
        "pageSize": 5,
        "totalCount": 1,
        "totalPages": 1,
    },
    "/api/v1/skills/ana-pdf": {
        "identifier": "ana-pdf",
        "name": "pdf",
        "description": "x",
        "version": "1.0.0",
    },
    "/api/v1/skills/ana-pdf/download?version=1.0.0": zipped({"pdf/SKILL.md": skill_md("pdf")}),
}


def test_lobehub_is_searched_and_its_zip_is_fetched() -> None:
    with hub_server(LOBE) as hub:
        found = source("lobehub", hub.url)
        assert [each.item for each in found.search("pdf", 5)] == ["ana-pdf"]
        assert paths(found.fetch("ana-pdf")) == ["SKILL.md"]
        with pytest.raises(HubMissingError):
            found.fetch("gone")
        with pytest.raises(HubError, match="not a name of a skill"):
            found.fetch("../../admin")


def test_a_token_goes_to_its_own_origin_only() -> None:
    def asked(hub: HubServer) -> list[str | None]:
        return [headers.get("authorization") for headers in hub.headers]

    with hub_server(CLAW) as hub, hub_server(CLAW) as other:
        known = SourcePlace("mine", "clawhub", hub.url, "s3cret")
        sources = SkillSources(Path("/"), (known,))
        sources.open(known).search("gif", 5)
        sources.open(SourcePlace("other", "clawhub", other.url)).search("gif", 5)
        assert asked(hub) == ["Bearer s3cret"] and asked(other) == [None]
        assert "s3cret" not in repr(known)
