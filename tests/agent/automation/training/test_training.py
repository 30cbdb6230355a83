"""Scored rollouts reach a trainer with the token ids the server gave; a bandit finds the better prompt."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.automation.batch.run import BatchOptions
from agent.automation.batch.task import read_tasks
from agent.automation.training.atropos import AtroposClient, AtroposError
from agent.automation.training.episode import MASKED, sequence_of, softmax, train, update_preferences
from agent.automation.training.rollouts import RolloutGroup, roll_out
from agent.core.store.nodes import Node
from agent.errors import ConfigError, HermesError
from tests.support.model_server import ModelServer, Rules
from tests.support.replies import Reply, refuse, say


def answer(prompt: list[int], output: list[int]) -> Node:
    data = {"tokens": {"prompt": prompt, "output": output, "logprobs": [-0.5] * len(output)}}
    return Node(1, "s", None, "assistant", 0.0, "", data)


SEQUENCES = [
    ([answer([1, 2], [3])], [1, 2, 3], [MASKED, MASKED, 3]),
    ([answer([1], [2, 3]), answer([1, 2, 3, 9], [4])], [1, 2, 3, 9, 4], [MASKED, 2, 3, MASKED, 4]),
    ([answer([1], [2]), answer([1, 7, 9], [4])], [1, 7, 9, 4], [MASKED, MASKED, MASKED, 4]),
    ([answer([1], [2]), Node(2, "s", 1, "assistant", 0.0, "", {})], None, None),
    ([], None, None),
]


@pytest.mark.parametrize(("path", "tokens", "masks"), SEQUENCES)
def test_tokens_and_masks_are_those_of_the_server_or_none(path: Any, tokens: Any, masks: Any) -> None:
    found = sequence_of(path)
    assert (None if found is None else list(found.tokens)) == tokens
    if found is not None:
        assert list(found.masks) == masks
        assert [each == 1.0 for each in found.logprobs or ()] == [mask == MASKED for mask in masks]


def test_a_bandit_learns_the_way_that_scores_best() -> None:
    chance = random.Random(1)
    preferences, total, count = [0.0] * 4, 0.0, 0
    for _ in range(60):
        arms = chance.choices(range(4), softmax(preferences), k=4)
        scores = [float(chance.random() < (0.9 if arm == 2 else 0.3)) for arm in arms]
        preferences = update_preferences(preferences, arms, scores, total / count if count else 0.5, 2.0)
        total, count = total + sum(scores), count + 4
    assert softmax(preferences)[2] > 0.8


class Trajectories:
    """A trajectory API as strict about its input as that of Atropos, with a trainer that comes late."""

    def __init__(self) -> None:
        self.groups: list[dict[str, Any]] = []
        self.envs: list[dict[str, Any]] = []
        self.left: list[int] = []
        self.late = 1
        self.faults = 1

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().lower().split("\r\n")
                headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                status, said = self.told(lines[0].split(" ")[1], json.loads(body or b"{}"))
                text = json.dumps(said).encode()
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def told(self, path: str, given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        match path:
            case "/register-env":
                if self.late:
                    self.late -= 1
                    return 200, {"status": "wait for trainer to start"}
                assert {name: type(value) for name, value in given.items()} == {
                    "max_token_length": int,
                    "desired_name": str,
                    "weight": float,
                    "group_size": int,
                }
                self.envs.append(given)
                return 200, {"status": "success", "env_id": 0, "wandb_name": "x_0", "starting_step": 0}
            case "/status-env":
                return 200, {"current_step": 0, "queue_size": len(self.groups), "env_weight": 1.0}
            case "/scored_data":
                if self.faults:
                    self.faults -= 1
                    return 503, {"detail": "busy"}
                size = self.envs[0]["group_size"]
                for name in ("tokens", "masks", "scores", "messages", "inference_logprobs"):
                    assert len(given[name]) == size
                rows = zip(given["tokens"], given["masks"], given["inference_logprobs"], strict=True)
                assert all(len(a) == len(b) == len(c) for a, b, c in rows)
                assert all("role" in m and "content" in m for row in given["messages"] for m in row)
                self.groups.append(given)
                return 200, {"status": "received"}
            case "/disconnect-env":
                self.left.append(given["env_id"])
                return 200, {"status": "success"}
        return 404, {"detail": path}


@asynccontextmanager
async def trajectories() -> AsyncIterator[tuple[Trajectories, str]]:
    api = Trajectories()
    server = await asyncio.start_server(api.answer, "127.0.0.1", 0)
    async with server:
        yield api, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def with_ids(payloads: list[Any]) -> list[Any]:
    """The chunks of a server that was asked for token ids."""
    first, last = payloads[0], payloads[-3]
    first["prompt_token_ids"] = [1, 2, 3]
    last["choices"][0] |= {"token_ids": [7, 8], "logprobs": {"content": [{"logprob": -0.1}] * 2}}
    return payloads


def environ(folder: Path, server: ModelServer) -> dict[str, str]:
    own = {"HERMES_HOME": str(folder / "home"), "OPENAI_BASE_URL": server.base_url}
    return {"PATH": os.environ["PATH"], **own, "OPENAI_API_KEY": "k", "HERMES_MODEL": "scripted"}


@pytest.mark.parametrize("address", ["nonsense", "ftp://x", "http://", "", "http://[", "127.0.0.1:8000"])
def test_an_api_has_an_address(address: str) -> None:
    with pytest.raises(ConfigError, match="is not an address of an API"):
        AtroposClient(address)


@pytest.mark.thorough
async def test_groups_reach_the_trajectory_api_whole(tmp_path: Path) -> None:
    asked: list[Any] = []

    def script(request: Any) -> Reply:
        asked.append(request.body)
        word = "Paris" if len(asked) % 2 else "Lyon"
        return say(f"It is {word}.", edits=(with_ids,))

    (tmp_path / "t.jsonl").write_text(
        "".join(
            json.dumps({"id": name, "prompt": f"Capital of {name}?", "checks": [{"contains": "Paris"}]})
            + "\n"
            for name in ("France", "Gaul")
        )
    )
    rules = Rules(body_fields=frozenset({"return_token_ids"}))
    async with ModelServer(script, rules=rules) as server, trajectories() as (api, address):
        client = AtroposClient(address)
        try:
            registered = await client.register("hermes", 2, 1_000, 60)

            async def each(group: RolloutGroup) -> None:
                assert group.tells and group.has_tokens
                await client.room(registered.env_id, 10)
                await client.hand_in(group.scored_data(registered.env_id))

            tasks, options = read_tasks(tmp_path / "t.jsonl"), BatchOptions(jobs=1)
            await roll_out(
                *(tasks, 2, tmp_path / "out", options, environ(tmp_path, server), each), base=tmp_path
            )
            await client.leave(registered.env_id)
            with pytest.raises(AtroposError, match="404"):
                await client._request("POST", "/nothing", {})
        finally:
            await client.aclose()
        assert server.refusals == []
    assert all(body["return_token_ids"] is True for body in asked) and len(asked) == 4
    assert [sorted(group["scores"]) for group in api.groups] == [[0.0, 1.0]] * 2
    assert api.groups[0]["tokens"][0] == [1, 2, 3, 7, 8]
    assert api.groups[0]["masks"][0] == [MASKED] * 3 + [7, 8]
    assert api.groups[0]["inference_logprobs"][0] == [1.0] * 3 + [-0.1] * 2
    assert api.left == [0]


@pytest.mark.thorough
async def test_a_training_ends_where_no_model_answers(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"prompt": "Capital of France?", "checks": [{"contains": "Paris"}]}\n')
    tasks, out = read_tasks(tmp_path / "t.jsonl"), tmp_path / "out"
    async with ModelServer(lambda request: refuse(404, "There is no model nosuch.")) as server:
        known = environ(tmp_path, server)
        keyless = {name: value for name, value in known.items() if not name.startswith("OPENAI_")}
        for variables, said in (
            (keyless, "No provider is configured for the model nosuch"),
            (known, "no rollout of step 1, .*There is no model nosuch"),
        ):
            assert not out.exists() and not server.requests
            with pytest.raises(HermesError, match=said):
                await train(
                    *(tasks, ["Be brief.", "Be sure."], out, BatchOptions(model="nosuch", retries=0)),
                    *(variables,),
                    steps=3,
                    size=2,
                    base=tmp_path,
                )
    assert not (out / "training.jsonl").exists() and not (out / "step-0002").exists()


@pytest.mark.thorough
async def test_training_finds_the_prompt_that_works(tmp_path: Path) -> None:
    def script(request: Any) -> Reply:
        return say("It is Paris." if "Think of towers." in str(request.messages) else "I do not know.")

    (tmp_path / "t.jsonl").write_text(
        json.dumps({"prompt": "Capital of France?", "checks": [{"contains": "Paris"}]}) + "\n"
    )
    async with ModelServer(script) as server:
        steps = await train(
            read_tasks(tmp_path / "t.jsonl"),
            ["Be brief.", "Think of towers.", "Be sure."],
            tmp_path / "out",
            BatchOptions(jobs=4),
            environ(tmp_path, server),
            steps=12,
            size=4,
            base=tmp_path,
        )
    assert steps[-1].probabilities[1] > 0.8
    assert len((tmp_path / "out" / "training.jsonl").read_text().splitlines()) == 12
