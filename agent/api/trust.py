"""All consents of the user, from all files that store consents, and their withdrawal."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from agent.automation.schedule.book import JobBook
from agent.core.config import trust
from agent.core.config.loader import load
from agent.core.config.settings_file import UnreadableSettingsError
from agent.core.home import Home
from agent.core.store.connection import Database
from agent.core.store.store import Store
from agent.errors import ConfigError, HermesError
from agent.integrations.browser.profile import ProfileConsent
from agent.integrations.gateways import people
from agent.integrations.hooks.session_hooks import HookConsent
from agent.integrations.mcp.server_config import ServerAgreement
from agent.integrations.plugins.consent import PluginConsent, PluginConsents
from agent.integrations.plugins.installing import withdraw
from agent.knowledge.context.quarantine import allowed_places, withdraw_approval
from agent.knowledge.skills.hub.lock import LockedSkill, LockFile
from agent.safety import grants


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustEntry:
    """One consent. `name`, `where` and the result of `read` are untrusted data."""

    kind: str
    """One word, such as `hook`."""
    words: str
    """The purpose of the consent, in words that precede `name` in a sentence."""
    name: str
    where: str
    """The folder or surface for which it is valid; empty if it is valid everywhere."""
    key: str
    """The key that identifies it among entries of its kind."""
    take_back: Callable[[], object]
    """Withdraws the consent; returns False if it was already withdrawn. Blocks. Raises `HermesError`."""
    hash: str = ""
    """The hash of the content for which it is valid, if any."""
    since: float | None = None
    """The time when it was given, in seconds since the epoch; None if that is not stored."""
    read: Callable[[], Mapping[str, Any]] = dict
    """Returns further data that can be written as JSON. Blocks."""

    @property
    def id(self) -> str:
        """The kind and the beginning of a hash of the key; unchanged as long as the consent exists."""
        return f"{self.kind}-{hashlib.sha256(self.key.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"


def trust_entries(home: Home, environ: Mapping[str, str]) -> tuple[list[TrustEntry], list[str]]:
    """Return all consents, and a sentence for each file of consents that cannot be read. Blocks."""
    found: list[TrustEntry] = []
    problems: list[str] = []
    for store in (
        partial(_hooks, home, environ),
        partial(_plugins, home),
        partial(_servers, home),
        partial(_projects, home),
        partial(_edited_skills, home),
        partial(_passages, home),
        partial(_grants, home),
        partial(_profiles, home),
        partial(_people_and_jobs, home),
    ):
        try:
            found += store()
        except HermesError as error:
            problems.append(str(error))
    return found, problems


def _hooks(home: Home, environ: Mapping[str, str]) -> Iterator[TrustEntry]:
    consent = HookConsent(home.hooks)
    for root, digests in sorted(consent.by_project().items()):
        # Consents hold only hashes; their meaning is in the settings, unless somebody changed them.
        declared = load(home, dict(environ), Path(root or home.root)).hooks if digests else ()
        known = {hook.digest: hook for hook in declared}
        for digest in sorted(digests):
            hook = known.get(digest)
            yield TrustEntry(
                kind="hook",
                words="the hook",
                name=f"{hook.event}: {hook.command}" if hook else "(changed or removed since)",
                where=root,
                key=digest,
                hash=digest,
                take_back=partial(consent.withdraw, digest),
                read=partial(asdict, hook) if hook else dict,
            )


def _plugins(home: Home) -> Iterator[TrustEntry]:
    agreed = PluginConsents(home.plugin_consent)
    for folder, consent in agreed.read().items():
        yield TrustEntry(
            kind="plugin",
            words="the plugin",
            name=consent.name,
            where=folder,
            key=folder,
            hash=consent.digest,
            take_back=partial(withdraw, home, Path(folder)),
            read=partial(_plugin_texts, agreed, consent),
        )


def _plugin_texts(agreed: PluginConsents, consent: PluginConsent) -> Mapping[str, Any]:
    """Return the consent to a plugin, with the texts that its files had at that time."""
    kept = agreed.texts.read(consent.digest, consent.files)
    return consent.to_json() | {
        "texts": {
            name: (kept[name].text or kept[name].lacks) if name in kept else "" for name in consent.files
        }
    }


def _servers(home: Home) -> Iterator[TrustEntry]:
    agreement = ServerAgreement(home.servers)
    for key, (name, root) in agreement.all().items():
        yield TrustEntry(
            kind="mcp",
            words="the MCP server",
            name=name or "(of a project; its name was not kept)",
            where=root,
            key=key,
            hash=key,
            take_back=partial(agreement.withdraw, key),
        )


def _projects(home: Home) -> Iterator[TrustEntry]:
    try:
        found = trust.digests(home)
    except UnreadableSettingsError as error:
        raise ConfigError(f"The file {home.trust} trusts nothing: {error}.") from error
    for kind, roots in found.items():
        for root, digest in roots.items():
            yield TrustEntry(
                kind="project" if kind == "folders" else "skills",
                words="the project's",
                name="settings" if kind == "folders" else "skills",
                where=root,
                key=root,
                hash=digest,
                take_back=partial(trust.untrust, home, Path(root), (kind,)),
            )


def _edited_skills(home: Home) -> Iterator[TrustEntry]:
    """Yield consents to installed skills that were changed after their installation."""
    lock = LockFile(home)

    def take_back(row: LockedSkill) -> bool:
        with lock.hold():
            rows = lock.read()
            if rows.get(row.name) != row:
                return False
            lock.write(rows | {row.name: replace(row, approved=row.digest)})
            return True

    for row in lock.read().values():
        if row.approved != row.digest:
            yield TrustEntry(
                kind="skill",
                words="the changes of the skill",
                name=row.name,
                where=str(lock.place(row)),
                key=row.name,
                hash=row.approved,
                take_back=partial(take_back, row),
                read=partial(asdict, row),
            )


def _passages(home: Home) -> Iterator[TrustEntry]:
    for digest, place in allowed_places(home).items():
        since = None
        with suppress(OSError):
            since = os.lstat(home.passages / digest).st_mtime
        yield TrustEntry(
            kind="passage",
            words="the passage",
            name=place or digest,
            where="",
            key=digest,
            hash=digest,
            since=since,
            take_back=partial(withdraw_approval, home, digest),
        )


def _grants(home: Home) -> Iterator[TrustEntry]:
    for grant in grants.load_grants(home.grants).values():
        yield TrustEntry(
            kind="grant",
            words="the action",
            name=grant.rule,
            where=grant.workspace,
            key=grant.id,
            since=grant.given,
            take_back=partial(grants.revoke_grant, home.grants, grant.id),
            read=partial(asdict, grant),
        )


def _profiles(home: Home) -> Iterator[TrustEntry]:
    consent = ProfileConsent(home.browser_profiles)

    for name in sorted(consent.approved_names()):
        yield TrustEntry(
            kind="profile",
            words="the browser profile",
            name=name,
            where="",
            key=name,
            take_back=partial(consent.withdraw, name),
        )


def _people_and_jobs(home: Home) -> Iterator[TrustEntry]:
    if not home.database.exists():
        return

    async def on_store(work: Callable[[Database], Awaitable[Any]]) -> Any:
        async with await Store.open(home.database) as store:
            return await work(store.database)

    def book(database: Database) -> JobBook:
        return JobBook(database, home.schedule)

    known, jobs = asyncio.run(
        on_store(lambda database: asyncio.gather(database.read(people.people), book(database).jobs()))
    )
    for person in known:
        if person.scope:
            id = f"{person.gateway}:{person.id}"
            yield TrustEntry(
                kind="person",
                words="the person",
                name=person.name or person.id,
                where=person.gateway,
                key=id,
                since=person.at,
                take_back=lambda id=id: asyncio.run(
                    on_store(lambda database: database.write(lambda c: people.revoke(c, id)))
                ),
                read=partial(asdict, person),
            )
    for job in jobs:
        if job.intent.allow and not job.beats:  # what the heartbeat may do is in the settings
            yield TrustEntry(
                kind="job",
                words="what is allowed to the job",
                name=job.intent.name or job.id,
                where=job.intent.cwd,
                key=job.id,
                take_back=lambda id=job.id: asyncio.run(
                    on_store(lambda database: book(database).edit(id, {"allow": []}))
                ),
                read=partial(asdict, job.intent),
            )
