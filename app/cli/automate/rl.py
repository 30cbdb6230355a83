"""`hermes rl`: tasks as a training environment, scored rollouts for a trainer, and a trainer of prompts."""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, ExitCode, HermesError
from app.cli.automate.batch import jobs
from app.cli.extend.extras import require
from app.cli.frame import add_action, add_actions, answer, positive, say, say_json, whole_number
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.automation.training.episode import BanditStep
    from agent.automation.training.rollouts import RolloutGroup, WeightStep

PORT = 8000
TOKEN = "HERMES_RL_TOKEN"
_APPROVE = ("careful", "normal", "plan", "yolo", "deny")
_ENVIRONMENT = "a task file, a folder of a suite, or the name of one that ships"
_HIGHEST_RATE = 1_000


DESCRIPTION = "Serve tasks as a training environment, hand in scored rollouts, train prompts."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes rl` to its parser."""
    actions = add_actions(parser)
    serve = _action(actions, "serve", "serve an environment in the form of OpenEnv on this machine")
    serve.add_argument(
        "--port", type=whole_number(0, 65_535), default=PORT, metavar="N", help=f"port ({PORT}; 0 = any)"
    )
    atropos = _action(actions, "atropos", "hand in scored groups to a trajectory API of Atropos")
    atropos.add_argument("--api", required=True, metavar="URL", help="address of the API")
    atropos.add_argument("--name", default="hermes", metavar="NAME", help="what it is registered as")
    atropos.add_argument("--wait", type=positive, default=600, metavar="S", help="for a trainer (600)")
    atropos.add_argument("--max-queue", type=positive, default=32, metavar="N", help="groups that wait (32)")
    atropos.add_argument("--max-length", type=positive, default=32_768, metavar="N", help="tokens (32768)")
    atropos.add_argument("--keep-equal", action="store_true", help="groups whose scores are all equal, too")
    train = _action(actions, "train", "train which of several prompts a task is best put with")
    train.add_argument("--prompts", required=True, type=Path, metavar="FILE", help="one prompt a line")
    train.add_argument("--steps", type=positive, default=20, metavar="N", help="steps (20)")
    train.add_argument("--rate", type=_rate, default=2.0, metavar="R", help="rate of learning (2.0)")
    train.add_argument("--seed", type=int, default=0, metavar="N", help="what is drawn (0)")
    tinker = _action(actions, "tinker", "train weights at Tinker with scored rollouts (extra `tinker`)")
    tinker.add_argument("--base-model", required=True, metavar="NAME", help="the model whose weights learn")
    tinker.add_argument("--steps", type=positive, default=10, metavar="N", help="steps (10)")
    tinker.add_argument("--tasks", type=positive, default=4, metavar="N", help="tasks of a step (4)")
    tinker.add_argument("--rank", type=positive, default=32, metavar="N", help="rank of the adapter (32)")
    tinker.add_argument("--learning-rate", type=_rate, default=1e-4, metavar="R", help="(0.0001)")
    tinker.add_argument("--seed", type=int, default=0, metavar="N", help="of the first weights (0)")
    for each in (atropos, train, tinker):
        each.add_argument(
            "--group", type=jobs, default=4, metavar="N", help="rollouts a group (4; at most 256)"
        )
        each.add_argument(
            "--jobs", type=jobs, default=4, metavar="N", help="rollouts at once (4; at most 256)"
        )
        if each is not tinker:
            each.add_argument("--model", default="", metavar="NAME", help="the model that is trained")
        each.add_argument("--max-tokens", type=positive, metavar="N", help="tokens of all of it")


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    made = add_action(actions, name, text, run, json="print JSON")
    made.add_argument("--env", default="tools", metavar="NAME", help=f"{_ENVIRONMENT} (tools)")
    made.add_argument("-o", "--out", type=Path, metavar="DIR", help="folder of sessions and results")
    made.add_argument("--approve", choices=_APPROVE, help="what happens to actions; nobody is asked")
    return made


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= _HIGHEST_RATE:
        raise argparse.ArgumentTypeError(f"has to be a number above 0, at most {_HIGHEST_RATE:,}")
    return value


def run(args: argparse.Namespace) -> int:
    """Run the chosen action; return an exit code. Raises `HermesError`."""
    work = {"serve": _serve, "atropos": _atropos, "train": _train, "tinker": _tinker}[args.action]
    try:
        work(args)
    except KeyboardInterrupt:
        say("Stopped; run the same command again to continue.", sys.stderr)
        return ExitCode.INTERRUPTED
    return ExitCode.DONE


def _folder(args: argparse.Namespace) -> Path:
    return (args.out or Path(f"{Path(args.env).stem}-{args.action}")).absolute()


def _base(args: argparse.Namespace) -> Path:
    return Path(args.env).absolute().parent


def _serve(args: argparse.Namespace) -> None:
    require("serve", "`hermes rl serve`")
    from app.cli.automate.rl_server import serve_environment

    given = os.environ.get(TOKEN, "").strip()
    token = given or secrets.token_urlsafe(24)

    def ready(url: str) -> None:
        if args.as_json:
            say_json({"url": url, "token": None if given else token})
            return
        print(f"hermes rl serve: {url}", flush=True)
        if not given:
            print(f"hermes rl serve: token {token} (or set {TOKEN})", file=sys.stderr, flush=True)

    asyncio.run(
        serve_environment(
            args.env,
            _folder(args),
            dict(os.environ),
            port=args.port,
            token=token,
            approve=args.approve,
            ready=ready,
        )
    )


def _atropos(args: argparse.Namespace) -> None:
    handed = asyncio.run(_hand_in(args))
    answer(
        args,
        handed,
        f"{handed['groups']} groups handed in, {handed['equal']} left out because all scores were equal.",
    )


async def _hand_in(args: argparse.Namespace) -> dict[str, int]:
    from agent.automation.training.atropos import AtroposClient
    from agent.automation.training.episode import read_environment
    from agent.automation.training.rollouts import roll_out

    tasks = await asyncio.to_thread(read_environment, args.env)
    client = AtroposClient(args.api)
    handed = {"groups": 0, "equal": 0, "env_id": -1}
    try:
        registered = await client.register(args.name, args.group, args.max_length, args.wait)
        handed["env_id"] = registered.env_id

        async def each(group: RolloutGroup) -> None:
            if not group.has_tokens:
                raise HermesError(
                    "The model's server gives no token ids, and none are made up; serve the model with one "
                    "that answers `return_token_ids` (vLLM does)."
                )
            if not group.tells and not args.keep_equal:
                handed["equal"] += 1
                return
            await client.room(registered.env_id, args.max_queue)
            await client.hand_in(group.scored_data(registered.env_id))
            handed["groups"] += 1

        try:
            await roll_out(
                *(tasks, args.group, _folder(args), _options(args), dict(os.environ), each),
                base=_base(args),
            )
        finally:
            await client.leave(registered.env_id)
    finally:
        await client.aclose()
    return handed


def _options(args: argparse.Namespace) -> Any:
    from agent.automation.batch.run import BatchOptions
    from agent.session.spending.budget import Budget

    total, model = Budget(tokens=args.max_tokens), getattr(args, "model", "")
    return BatchOptions(jobs=args.jobs, model=model, approve=args.approve, total=total)


def _train(args: argparse.Namespace) -> None:
    from agent.automation.training.episode import read_environment, train

    try:
        ways = [line.strip() for line in args.prompts.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not encoded in UTF-8"
        raise ConfigError(f"{args.prompts} cannot be read: {reason}.") from error
    if len(ways) < 2:
        raise ConfigError(f"{args.prompts} has to have two prompts at least, one a line.")

    def print_step(step: BanditStep) -> None:
        if args.as_json:
            return
        shown = " ".join(f"{each:.2f}" for each in step.probabilities)
        say(f"{step.step:>4}  {sum(step.scores) / len(step.scores):.2f}  [{shown}]  {step.task}")

    made = asyncio.run(
        train(
            *(read_environment(args.env), ways, _folder(args), _options(args), dict(os.environ)),
            steps=args.steps,
            size=args.group,
            rate=args.rate,
            seed=args.seed,
            base=_base(args),
            told=print_step,
        )
    )
    last = made[-1].probabilities
    best = max(range(len(ways)), key=lambda each: last[each])
    answer(
        args,
        {"best": ways[best], "probabilities": dict(zip(ways, last, strict=True))},
        f"Best with probability {last[best]:.2f}: {ways[best]}",
    )


def _tinker(args: argparse.Namespace) -> None:
    made = asyncio.run(_train_weights(args))
    last = made[-1]
    answer(
        args,
        {"steps": len(made), "saved": last.saved},
        f"{plural(len(made), 'step')}; the weights are kept at {last.saved}.",
    )


async def _train_weights(args: argparse.Namespace) -> list[WeightStep]:
    from agent.automation.training.episode import read_environment
    from agent.automation.training.rollouts import TinkerWeights, WeightPlan, steps_before, train_weights

    def print_step(step: WeightStep) -> None:
        if not args.as_json:
            scores = [score for group in step.scores for score in group]
            mean = sum(scores) / len(scores)
            say(f"{step.step:>4}  {mean:.2f}  {step.data} rollouts learned from  {', '.join(step.tasks)}")

    tasks = await asyncio.to_thread(read_environment, args.env)
    before = await asyncio.to_thread(steps_before, _folder(args))
    saved = before[-1].saved if before else ""
    weights = await TinkerWeights.open(args.base_model, args.rank, args.seed, saved)
    try:
        return await train_weights(
            *(tasks, weights, _folder(args), _options(args), dict(os.environ)),
            WeightPlan(
                steps=args.steps, group=args.group, tasks=args.tasks, learning_rate=args.learning_rate
            ),
            base=_base(args),
            told=print_step,
        )
    finally:
        await weights.aclose()
