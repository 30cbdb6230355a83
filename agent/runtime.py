"""The composition root: builds the services of one session and wires them together."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.announcing import announce
from agent.assembly.conversation import Conversation, open_conversation
from agent.assembly.foundation import Closer, Foundation
from agent.assembly.reach import Reach, around_session, open_reach
from agent.assembly.worker import Surround, open_worker
from agent.attachments import AttachmentStore
from agent.checkpoint_service import CheckpointService
from agent.checkpointing import open_recorder
from agent.engine import Engine
from agent.futures import Futures
from agent.home import Home, private_folder
from agent.inbox import Inbox
from agent.known_secrets import known_secrets
from agent.mailbox import Mailbox
from agent.opening import swept
from agent.options import Options
from agent.policy_news import permission_problems
from agent.routes import RoutePlan, plan_routes
from agent.spending.decisions import Decisions
from agent.spending.metering import Metering
from agent.spending.raising import Raiser
from agent.store.store import Store
from agent.stream import EventStream, Listener
from agent.subagents.child import Services
from agent.subagents.copies import Copies
from agent.subagents.definitions import Definitions
from agent.subagents.forecaster import Beginning
from agent.subagents.grounds import Ground, Grounds
from agent.subagents.models import KnownModels, Models
from agent.subagents.team import Team, open_team
from agent.system import tone_of
from agent.travel import Travel
from tools.discovery import discover
from tools.registry import registry

if TYPE_CHECKING:
    from agent.config.loader import Loaded
    from agent.workspace.attention import Attention
    from agent.workspace.checkpoints.recorder import Recorder as Steps


async def open_engine(
    options: Options,
    *listeners: Listener,
    environ: Mapping[str, str] = os.environ,
    metering: Metering | None = None,
) -> Engine:
    """Open a session, new or resumed, ready for its first message.

    `metering` is that of a session which the engine works beside.
    Raises a `HermesError` when there is no model, no usable store, or no such session.
    """
    home = Home.locate(dict(environ))
    private_folder(home.root)
    beside = options.beside
    project = options.workspace if beside is None else beside.origin
    loaded = await asyncio.to_thread(_configured, home, dict(environ), project)
    plan = await plan_routes(loaded.settings, loaded.environ, options.model)
    stream = EventStream()
    for listener in listeners:
        stream.subscribe(listener)
    secrets = _secrets(loaded, plan)
    store = beside.store if beside else await Store.open(home.database, secrets=secrets)
    closers: list[Closer] = [] if beside else [store.close, swept(home.copies, store)]
    base = Foundation(
        options=options,
        home=home,
        settings=loaded.settings,
        plan=plan,
        environ=environ,
        variables=loaded.environ,
        definitions=Definitions(home, project),
        store=store,
        stream=stream,
        secrets=secrets,
        closers=closers,
        metering=metering,
    )
    try:
        return await _assemble(base, await asyncio.to_thread(_problems, loaded, plan))
    except BaseException:
        for close in reversed(closers):
            await close()
        raise


def _configured(home: Home, environ: dict[str, str], workspace: Path) -> Loaded:
    """Settings, environment with `.env`, and what is wrong with them. Reads files."""
    from agent.config.loader import load

    return load(home, environ, workspace)


def _problems(loaded: Loaded, plan: RoutePlan) -> list[str]:
    """What is wrong with the settings and can be gone on without. Reads files."""
    problems = [str(problem) for problem in loaded.problems]
    if wrong := tone_of(loaded.settings)[1]:
        problems.append(wrong)
    if loaded.project == "untrusted":
        problems.append(
            "This project brings settings of its own, which were not read; see `hermes config trust`."
        )
    problems += [plan.problem] if plan.problem else []
    return problems + [f"The tools of {each.module} are missing: {each.reason}" for each in discover()]


def _secrets(loaded: Loaded, plan: RoutePlan) -> dict[str, str]:
    """What is masked wherever text is shown, stored or sent."""
    keys = {target.key_hint or f"{target.provider} key": target.api_key for target in plan.all}
    providers = loaded.settings.providers.values()
    headers = [provider.headers for provider in providers]
    # Agents may be sent to models that the session itself does not ask.
    keys |= {name: loaded.environ.get(name, "") for each in providers if (name := each.api_key_env)}
    return known_secrets(loaded.environ, keys, headers)


async def _assemble(base: Foundation, problems: Sequence[str]) -> Engine:
    options, beside = base.options, base.options.beside
    talk = await open_conversation(base)
    session = talk.session
    inbox = Inbox(base.emit, attended=options.attended, secrets=base.secrets)
    if beside is not None:
        inbox = beside.inbox
    mailbox = Mailbox(base.emit)
    decisions = await _decisions(base, talk)
    raiser = Raiser(inbox, base.emit, decisions)
    talk.metering.reached = partial(raiser.ask, agent=base.agent)
    reach = await open_reach(base, talk, around_session(base, talk, inbox))
    steps = await _steps(base, talk, mailbox)
    attention = await _attention(base, mailbox)
    team = _team(base, talk, reach, inbox, raiser, mailbox, steps)
    near = Surround(
        steps=steps,
        checkpoints=None if steps is None else CheckpointService(session, steps, lambda: travel),
        attention=attention,
        team=team,
    )
    worker = open_worker(base, talk, reach, inbox, mailbox, near)
    travel = Travel(session, steps, base.emit, worker.moved)
    futures = None if steps is None else _futures(base, talk, reach, inbox, steps, travel)
    told = [*problems, *permission_problems(reach.gate.policy), *talk.agents.told()]
    announce(
        base.stream, session, talk.opened, talk.routes[0], reach.gate.mode, reach.runs_in, talk.changed, told
    )
    if team is not None and talk.opened.owned:
        await team.find_again()
    return Engine(
        session,
        base.stream,
        inbox,
        mailbox,
        worker.turns,
        talk.routes[0].name,
        list(reversed(base.closers)),
        worker.dialogue.context,
        reach.gate,
        attention=attention,
        travel=travel if beside is None else None,
        futures=futures,
        agent=base.agent,
        agents=None if team is None else team.scheduler,
        metering=talk.metering,
    )


async def _decisions(base: Foundation, talk: Conversation) -> Decisions:
    """What the person decided for the whole session, which holds again."""
    decisions = Decisions(talk.session, base.emit)
    if base.options.beside is None and talk.opened.path:
        await decisions.recall()
        ceilings = talk.metering.spending.session
        decisions.apply(ceilings.owner, ceilings)
    return decisions


async def _steps(base: Foundation, talk: Conversation, mailbox: Mailbox) -> Steps | None:
    """The recorder of what happens to files; None where that is not kept."""
    options, session = base.options, talk.session
    if (beside := options.beside) is not None:
        session.position = lambda: beside.position
        return None
    steps = await open_recorder(
        base.home,
        options.workspace,
        session.id,
        base.settings.checkpoints,
        base.emit,
        mailbox.remember,
        talk.opened.interrupted,
        base.closers,
    )
    if steps is not None:
        session.position = lambda: steps.position
    return steps


async def _attention(base: Foundation, mailbox: Mailbox) -> Attention | None:
    """The watcher of the workspace, where a person works beside the agent; at rest if it is not wanted."""
    options = base.options
    if not options.attended or options.beside is not None:
        return None
    from agent.workspace.attention import Attention

    attention = Attention(options.workspace, base.emit, mailbox.remember, base.secrets)
    attention.enabled = base.settings.watcher.enabled
    if attention.enabled:
        await attention.start()
    base.closers.append(attention.stop)
    return attention


def _team(
    base: Foundation,
    talk: Conversation,
    reach: Reach,
    inbox: Inbox,
    raiser: Raiser,
    mailbox: Mailbox,
    steps: Steps | None,
) -> Team | None:
    """The agents that the session may send; None where it may send none."""
    settings = base.settings
    if base.options.beside is not None or settings.subagents.depth == 0:
        return None
    services = Services(
        store=base.store,
        home=base.home,
        settings=settings,
        root=talk.session.id,
        models=_models(base, talk),
        metering=talk.metering,
        definitions=base.definitions,
        tools=talk.tools,
        registry=registry,
        emit=base.emit,
        inbox=inbox,
        raiser=raiser,
        options=base.tool_options(),
        attachments=AttachmentStore(base.home.attachments),
        grounds=_grounds(base, talk, reach, steps),
    )
    beginning = Beginning(base.plan.meter.estimate, talk.session.system)
    team = open_team(services, settings.subagents, mailbox, beginning, talk.metering.purse)
    base.closers.append(team.scheduler.aclose)
    return team


def _models(base: Foundation, talk: Conversation) -> Models:
    """The models that agents can ask."""
    own = {target.label: target.info for target in base.plan.targets}
    models = Models(
        base.plan,
        talk.routes,
        talk.tools,
        KnownModels(own, talk.metering.spending.prices),
        settings=base.settings,
        environ=base.variables,
        home=base.home,
        emit=base.emit,
    )
    base.closers.append(models.aclose)
    return models


def _grounds(base: Foundation, talk: Conversation, reach: Reach, steps: Steps | None) -> Grounds:
    """Where agents that are sent can work."""
    position = None if steps is None else lambda: steps.position
    shared = Ground(reach=reach, steps=steps, position=position)
    copies = None
    if steps is not None:
        copies = Copies(base.store, talk.session.id, steps, base.home.copies, base.emit)
    return Grounds(shared, copies, partial(open_reach, base, talk))


def _futures(
    base: Foundation, talk: Conversation, reach: Reach, inbox: Inbox, steps: Steps, travel: Travel
) -> Futures:
    async def beside_us(chosen: Options, listener: Listener) -> Engine:
        return await open_engine(chosen, listener, environ=base.environ, metering=talk.metering)

    futures = Futures(
        talk.session,
        steps,
        travel,
        inbox,
        base.emit,
        base.home.copies,
        base.options,
        lambda: reach.gate.mode,
        beside_us,
    )
    base.closers.append(futures.close)
    return futures
