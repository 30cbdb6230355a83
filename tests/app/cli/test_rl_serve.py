"""`hermes rl serve`: an episode over HTTP and one over WebSocket, played with the real tools."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from websockets.sync.client import connect

from tests.support.command import HERMES, environment

TASK = {
    "id": "write",
    "prompt": "Write two into b.txt.",
    "checks": [{"file": {"path": "b.txt", "contains": "two"}}, {"contains": "done"}],
}
WRITE = {"name": "write_file", "arguments": {"path": "b.txt", "content": "two\n"}}
FIRST = {"prompt": [1, 2, 3], "output": [4, 5], "logprobs": [-0.1, -0.2]}
LAST = {"prompt": [1, 2, 3, 4, 5, 6], "output": [7], "logprobs": [-0.3]}
WRONG = (
    ("/reset", "{", 422, "the body is not JSON"),
    ("/reset", "[" * 100_000, 422, "the body is not JSON"),
    ("/reset", '{"episode_id": "\\ud800"}', 422, "the body is not JSON"),
    ("/score", '{"session": "\\ud800"}', 422, "the body is not JSON"),
    ("/step", '{"action": {"text": "\\ud800"}}', 422, "the body is not JSON"),
    ("/reset", "[]", 422, "has to be a JSON object"),
    ("/reset", '{"seed": "seven", "episode_id": "one"}', 409, "`seed` is a whole number"),
    ("/reset", '{"task": "lost", "episode_id": "one"}', 409, "There is no task 'lost'; there are write"),
    ("/step", '{"action": {}}', 409, "An action has `text`, `tool_calls`"),
    ("/step", '{"action": {"text": 1}}', 409, "The text of an action is text"),
    ("/step", '{"action": {"tool_calls": "x"}}', 409, "`tool_calls` of an action is a list"),
    ("/step", '{"action": {"message": {"role": "user", "content": "x"}}}', 409, "has the role assistant"),
    ("/step", '{"action": {"text": "x", "tokens": {"output": "ab"}}}', 409, "`tokens` of an action has"),
    ("/step", '{"action": {"text": "x", "tokens": {"output": [1], "logprobs": []}}}', 409, "`tokens` of an"),
    ("/score", '{"session": "lost"}', 409, "There is no session lost"),
)
"""Requests with something wrong: none of them touches the episode that is under way."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    (folder / "tasks.jsonl").write_text(json.dumps(TASK) + "\n")
    line = ["rl", "serve", "--env", "tasks.jsonl", "-o", "out", "--port", "0", "--approve", "yolo", "--json"]
    env = environment(folder / "home", HERMES_RL_TOKEN="token")
    with subprocess.Popen(
        [*HERMES, *line], cwd=folder, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()
            assert process.wait(30) == 0


def test_a_trainer_plays_a_task_over_http_and_over_a_socket(tmp_path: Path) -> None:
    with served(tmp_path) as url, httpx2.Client(base_url=url, trust_env=False, timeout=60) as client:
        assert client.get("/health").json() == {"status": "healthy"}
        strangers = [
            {},
            {"Authorization": "Bearer guess"},
            {"Authorization": "Bearer token", "Host": "evil.example"},
        ]
        strangers.append({"Authorization": "Bearer token", "Origin": "http://127.0.0.1:1"})
        assert [client.post("/reset", headers=each).status_code for each in strangers] == [401] * 4
        client.headers["Authorization"] = "Bearer token"
        assert client.post("/policy/x/v1/chat/completions").status_code == 401
        assert client.post("/step", json={"action": {"text": "too soon"}}).status_code == 409
        assert client.post("/step", json={"action": 3}).status_code == 422
        assert set(client.get("/schema").json()) == {"action", "observation", "state"}

        def step(**action: Any) -> dict[str, Any]:
            return client.post("/step", json={"action": action}).json()

        begun = client.post("/reset", json={"seed": 7, "episode_id": "one"}).json()
        assert set(begun) == {"observation", "reward", "done"} and begun["done"] is False
        assert [each["role"] for each in begun["observation"]["messages"]] == ["system", "user"]
        assert "write_file" in str(begun["observation"]["tools"])
        for path, content, status, said_of in WRONG:
            refused = client.post(path, content=content)
            assert refused.status_code == status and said_of in refused.json()["detail"], refused.text
        looked = step(tool_calls=[WRITE], tokens=FIRST)
        assert "bytes_written" in looked["observation"]["messages"][-1]["content"]
        ended = step(text="It is done.", tokens=LAST)
        assert (ended["done"], ended["reward"]) == (True, 1.0)
        state = client.get("/state").json()
        assert (state["episode_id"], state["step_count"], state["done"]) == ("one", 2, True)
        score = client.post("/score", json={"session": state["session"]}).json()
        assert score["tokens"] == [1, 2, 3, 4, 5, 6, 7]
        assert score["masks"] == [-100, -100, -100, 4, 5, -100, 7] and score["score"] == 1.0
        assert step(text="more").get("detail", "").startswith("There is no episode")

        header = base64.b64encode(b"trainer:token").decode()
        address = url.replace("http", "ws") + "/ws"
        with connect(address, additional_headers={"Authorization": f"Basic {header}"}, proxy=None) as socket:

            def said(message: object) -> dict[str, Any]:
                socket.send(message if isinstance(message, str | bytes) else json.dumps(message))
                return json.loads(socket.recv(60))

            for wrong in ("{", b"{", b"\xff", b"", '{"type": "\\ud800"}'):
                assert said(wrong)["data"]["code"] == "INVALID_JSON"
            assert said({"type": "dance"})["data"]["code"] == "UNKNOWN_TYPE"
            assert said({"type": "step", "data": {}})["data"]["code"] == "EXECUTION_ERROR"
            begun = said({"type": "reset", "data": {"task": "write"}})
            assert begun["type"] == "observation" and begun["data"]["done"] is False
            ended = said({"type": "step", "data": {"text": "It is done."}})["data"]
            assert (ended["done"], ended["reward"]) == (True, 0.5)
            told = said({"type": "state"})
            assert told["type"] == "state" and told["data"]["step_count"] == 1
            score = client.post("/score", json={"session": told["data"]["session"]}).json()
            assert (score["score"], score["tokens"], score["masks"]) == (0.5, None, None)
