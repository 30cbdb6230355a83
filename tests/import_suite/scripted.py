"""A model on loopback that does what the prompt says, over four protocols.

The newest prompt has the form `plan: call echo one & call cat gone | say fine`: steps are separated by `|`,
calls of one step by `&`. The step is the number of the model's turns since that prompt. `sleep` waits before
it answers, `again` calls under the id of the call before, `write PATH TEXT` calls the tool for whole files,
`big N` counts N tokens of the request, so that a program makes room.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SHELLS = (
    "Bash", "bash", "exec_command", "shell_command", "shell", "run_shell_command", "run_commands",
    "execute_command", "terminal", "Shell", "execute",
)  # fmt: skip
"""How programs call their shell tool."""
WRITERS = ("Write", "write_file", "write", "WriteFile", "write_text_file", "editor", "create")
"""How they call the tool that writes a whole file."""
SUMMARY = "SUMMARY-TOKEN what was done so far"


@dataclass
class Step:
    """What the model answers."""

    text: str = ""
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    """Id, name and arguments."""
    wait: float = 0.0
    tokens: int = 100
    """What it says that the request had."""


@dataclass(frozen=True)
class Said:
    """One entry of a conversation as the wire has it: role, text, and id and arguments of a call."""

    role: str
    """user, assistant, call or result."""
    text: str
    call: str = ""


@dataclass
class Exchange:
    """A request and its answer, in one form for all protocols."""

    path: str
    body: dict[str, Any]
    said: list[Said]
    step: Step


class ScriptedModel:
    """Serves on a free port until `close`."""

    def __init__(self, *, escalates: bool = False) -> None:
        self.exchanges: list[Exchange] = []
        self._lock = threading.Lock()
        self._count = self._big = 0
        self._escalates = escalates
        """Whether it asks for each command to run outside of the program's own sandbox, where it can ask."""
        model = self

        class Handler(_Handler):
            def answer(self, path: str, body: dict[str, Any]) -> Exchange:
                return model.answer(path, body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: dict[str, Any]) -> Exchange:
        said = conversation(body)
        with self._lock:
            self._count += 1
            exchange = Exchange(path, body, said, self._step(said, body))
            self.exchanges.append(exchange)
        return exchange

    def _summary(self) -> Step:
        """Return the answer to a request for a summary, which was as long as what it sums up."""
        tokens, self._big = self._big or 100, 0
        return Step(SUMMARY, tokens=tokens)

    def _step(self, said: list[Said], body: dict[str, Any]) -> Step:
        asked = max(
            (at for at, each in enumerate(said) if each.role == "user" and "plan:" in each.text), default=-1
        )
        last = next((each.text for each in reversed(said) if each.role == "user"), "")
        shell = shell_of(body)
        if asked < 0 or (
            "plan:" not in last
            and any(word in last.lower() for word in ("summar", "handoff", "compact", "snapshot"))
        ):
            return self._summary()
        fenced = any("```shell" in each.text for each in said if each.role == "system")
        if not shell and not fenced:
            return self._summary() if _is_told(last) else Step("a title")
        plan = said[asked].text.rpartition("plan:")[2].split("\n")[0].strip().strip('"').split("|")
        turns = sum(
            each.role == "call" or (each.role == "assistant" and bool(each.text.strip()))
            for each in _first_of_turns(said[asked + 1 :])
        )
        if turns >= len(plan):
            return Step("nothing left")
        step = Step()
        for number, order in enumerate(part.strip() for part in plan[turns].split("&")):
            verb, _, words = order.partition(" ")
            if verb == "say":
                step.text += words
            elif verb == "sleep":
                step.wait += float(words)
            elif verb == "big":
                step.tokens = self._big = int(words)
            elif verb in ("call", "again") and not shell:
                step.text += f"```shell\n{words}\n```\n"
            elif verb in ("call", "again") and shell:
                id = f"c{self._count:05}x{number:02}"  # nine characters, as Mistral wants them
                id = _newest_call(said, id) if verb == "again" else id
                given = _arguments(shell, words)
                if self._escalates and "sandbox_permissions" in (shell[1].get("properties") or {}):
                    given |= {"sandbox_permissions": "require_escalated", "justification": "said so"}
                step.calls.append((id, shell[0], given))
            elif verb == "write" and (writer := _tool_of(body, WRITERS)):
                path, _, text = words.partition(" ")
                step.calls.append((f"c{self._count:05}x{number:02}", writer[0], _file(writer[1], path, text)))
            elif verb == "write" and shell:  # Codex takes patches as commands
                path, _, text = words.partition(" ")
                patch = f"*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch"
                given = _arguments(shell, f"apply_patch <<'EOF'\n{patch}\nEOF\n")
                step.calls.append((f"c{self._count:05}x{number:02}", shell[0], given))
        return step


def _is_told(text: str) -> bool:
    """Return whether a prompt holds a conversation, to be summed up."""
    begins = ("# Conversation", "You are a summarization agent")
    return "<conversation>" in text or text.startswith(begins)


def _first_of_turns(said: list[Said]) -> Iterator[Said]:
    """Yield the first entry of each of the model's turns."""
    before = ""
    for each in said:
        if each.role in ("assistant", "call") and before not in ("assistant", "call"):
            yield each
        before = each.role


def _tools(body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for tool in body.get("tools") or []:
        for each in tool.get("functionDeclarations") or [tool.get("function") or tool]:
            schema = (
                each.get("parameters") or each.get("input_schema") or each.get("parametersJsonSchema") or {}
            )
            found.append((str(each.get("name")), schema))
    return found


def _tool_of(body: dict[str, Any], names: tuple[str, ...]) -> tuple[str, dict[str, Any]] | None:
    tools = dict(_tools(body))
    return next(((name, tools[name]) for name in names if name in tools), None)


def shell_of(body: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return name and schema of the tool that runs commands."""
    return _tool_of(body, SHELLS)


def _newest_call(said: list[Said], other: str) -> str:
    """Return the id of the newest call of a conversation, or another one if it has none."""
    return next((each.call.removeprefix("toolu_") for each in reversed(said) if each.role == "call"), other)


def _file(schema: dict[str, Any], path: str, text: str) -> dict[str, Any]:
    """Return the arguments with which a tool writes a file."""
    names = schema.get("properties") or {}
    given: dict[str, Any] = {}
    for name in names:
        if name in ("path", "file_path", "filePath", "absolute_path"):
            given[name] = path
        elif name in ("content", "contents", "new_text", "file_text"):
            given[name] = text
    return given


def _arguments(shell: tuple[str, dict[str, Any]], words: str) -> dict[str, Any]:
    properties = shell[1].get("properties") or {}
    key = next((name for name in ("command", "cmd", "commands") if name in properties), "command")
    listed = (properties.get(key) or {}).get("type") == "array" or key == "commands"
    value: Any = ([words] if key == "commands" else ["bash", "-c", words]) if listed else words
    more = {
        name: "said so" for name in shell[1].get("required") or () if name in ("description", "explanation")
    }
    more |= {
        name: False
        for name in ("is_background", "requires_approval")
        if name in (shell[1].get("required") or ())
    }
    return {key: value, **more}


def conversation(body: dict[str, Any]) -> list[Said]:
    """Return what a request of any of the four protocols says."""
    if "contents" in body:
        return list(_gemini(body["contents"]))
    if "input" in body:
        items = body["input"]
        return list(_responses(items if isinstance(items, list) else [{"role": "user", "content": items}]))
    return list(_messages(body.get("messages") or []))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(
        str(each.get("text", "")) for each in content or () if isinstance(each, dict) and "text" in each
    )


def _messages(messages: list[dict[str, Any]]) -> Iterator[Said]:
    """Chat completions and Messages."""
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if role == "tool":
            yield Said("result", _text(content), str(message.get("tool_call_id")))
            continue
        blocks = content if isinstance(content, list) else []
        for block in blocks:
            if block.get("type") == "tool_result":
                yield Said("result", _text(block.get("content")), str(block.get("tool_use_id")))
        if (text := _text(content)).strip():
            yield Said("user" if role == "user" else "assistant" if role == "assistant" else "system", text)
        for block in blocks:
            if block.get("type") == "tool_use":
                yield Said("call", json.dumps(block.get("input")), str(block.get("id")))
        for call in message.get("tool_calls") or ():
            yield Said("call", str(call["function"]["arguments"]), str(call.get("id")))


def _responses(items: list[dict[str, Any]]) -> Iterator[Said]:
    for item in items:
        match item.get("type", "message"):
            case "message":
                role = str(item.get("role"))
                yield Said(role if role in ("user", "assistant") else "system", _text(item.get("content")))
            case "function_call" | "custom_tool_call":
                yield Said("call", str(item.get("arguments", item.get("input"))), str(item.get("call_id")))
            case "function_call_output" | "custom_tool_call_output":
                output = item.get("output")
                yield Said(
                    "result", output if isinstance(output, str) else _text(output), str(item.get("call_id"))
                )


def _gemini(contents: list[dict[str, Any]]) -> Iterator[Said]:
    for content in contents:
        role = "assistant" if content.get("role") == "model" else "user"
        for part in content.get("parts") or ():
            if "functionCall" in part:
                call = part["functionCall"]
                yield Said("call", json.dumps(call.get("args")), str(call.get("id") or ""))
            elif "functionResponse" in part:
                answer = part["functionResponse"]
                told = answer.get("response") or {}
                yield Said(
                    "result", str(told.get("output", told.get("error", told))), str(answer.get("id") or "")
                )
            elif part.get("text") and not part.get("thought"):
                yield Said(role, part["text"])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, path: str, body: dict[str, Any]) -> Exchange:
        raise NotImplementedError

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": "test-model", "object": "model"}], "models": []}
        self._send(json.dumps(models).encode(), "application/json")

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            import gzip

            raw = gzip.decompress(raw)
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens") or ":countTokens" in path:
            self._send(b'{"input_tokens": 10, "totalTokens": 10}', "application/json")
            return
        if not any(name in body for name in ("messages", "input", "contents")):
            self._send(b"{}", "application/json")
            return
        exchange = self.answer(path, body)
        time.sleep(exchange.step.wait)
        with suppress(BrokenPipeError, ConnectionResetError):
            if path.endswith("/messages"):
                events = list(messages_events(exchange.step))
                plain: Any = message_of(exchange.step)
                stream = bool(body.get("stream"))
            elif path.endswith("/responses"):
                events, stream = list(responses_events(exchange.step)), bool(body.get("stream"))
                plain = json.loads(events[-1].partition("data: ")[2])["response"]
            elif "contents" in body:
                plain, stream = gemini_answer(exchange.step), "stream" in path
                events = [f"data: {json.dumps(plain)}\n\n"]
            else:
                events, stream = list(chat_events(exchange.step)), bool(body.get("stream"))
                plain = chat_answer(exchange.step)
            if stream:
                self._send("".join(events).encode(), "text/event-stream")
            else:
                self._send(json.dumps(plain).encode(), "application/json")

    def _send(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


_NUMBERS = iter(range(1, 1_000_000))


def _blocks(step: Step) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": step.text}] if step.text else []
    return blocks + [
        {"type": "tool_use", "id": f"toolu_{id}", "name": name, "input": given}
        for id, name, given in step.calls
    ]


def message_of(step: Step) -> dict[str, Any]:
    """Return the answer as Messages has it."""
    return {
        "id": f"msg_{next(_NUMBERS):06}", "type": "message", "role": "assistant", "model": "claude-opus-5",
        "content": _blocks(step), "stop_reason": "tool_use" if step.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": step.tokens, "output_tokens": 20, "cache_read_input_tokens": 30},
    }  # fmt: skip


def _event(data: dict[str, Any]) -> str:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n"


def messages_events(step: Step) -> Iterator[str]:
    """Yield the answer as the events of Messages."""
    message = message_of(step)
    yield _event({"type": "message_start", "message": {**message, "content": [], "stop_reason": None}})
    for at, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield _event({"type": "content_block_start", "index": at, "content_block": empty})
        yield _event({"type": "content_block_delta", "index": at, "delta": delta})
        yield _event({"type": "content_block_stop", "index": at})
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 20}})
    yield _event({"type": "message_stop"})


def responses_events(step: Step) -> Iterator[str]:
    """Yield the answer as the events of Responses."""
    number = next(_NUMBERS)
    response: dict[str, Any] = {
        "id": f"resp_{number}",
        "object": "response",
        "status": "in_progress",
        "output": [],
    }
    yield _event({"type": "response.created", "response": response})
    items: list[dict[str, Any]] = []
    if step.text:
        part = {"type": "output_text", "text": step.text, "annotations": []}
        items.append(
            {
                "type": "message",
                "id": f"msg_{number}",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    for at, (id, name, given) in enumerate(step.calls):
        items.append(
            {"type": "function_call", "id": f"fc_{number}_{at}", "call_id": id, "name": name,
             "arguments": json.dumps(given), "status": "completed"}
        )  # fmt: skip
    for at, item in enumerate(items):
        yield _event({"type": "response.output_item.added", "output_index": at, "item": item})
        if item["type"] == "message":
            delta = {"item_id": item["id"], "output_index": at, "content_index": 0, "delta": step.text}
            yield _event({"type": "response.output_text.delta", **delta})
        yield _event({"type": "response.output_item.done", "output_index": at, "item": item})
    usage = {
        "input_tokens": step.tokens, "input_tokens_details": {"cached_tokens": 30}, "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": step.tokens + 20,
    }  # fmt: skip
    done = {**response, "status": "completed", "output": items, "usage": usage}
    yield _event({"type": "response.completed", "response": done})


def _counts(step: Step) -> dict[str, Any]:
    return {
        "prompt_tokens": step.tokens, "completion_tokens": 20, "total_tokens": step.tokens + 20,
        "prompt_tokens_details": {"cached_tokens": 30},
    }  # fmt: skip


def chat_answer(step: Step) -> dict[str, Any]:
    """Return the answer as a chat completion."""
    calls = [
        {
            "index": at,
            "id": id,
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(given)},
        }
        for at, (id, name, given) in enumerate(step.calls)
    ]
    message = {"role": "assistant", "content": step.text or None, **({"tool_calls": calls} if calls else {})}
    return {
        "id": f"chatcmpl-{next(_NUMBERS)}", "object": "chat.completion", "created": int(time.time()),
        "model": "test-model", "usage": _counts(step),
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
    }  # fmt: skip


def chat_events(step: Step) -> Iterator[str]:
    """Yield the answer as chunks of a chat completion."""
    whole = chat_answer(step)
    choice = whole["choices"][0]
    head = {**{key: whole[key] for key in ("id", "created", "model")}, "object": "chat.completion.chunk"}
    rows = [
        ({**choice["message"], "content": choice["message"]["content"] or ""}, None),
        ({}, choice["finish_reason"]),
    ]
    for delta, reason in rows:
        chunk = {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        yield f"data: {json.dumps(chunk)}\n\n"
    yield f"data: {json.dumps({**head, 'choices': [], 'usage': _counts(step)})}\n\n"
    yield "data: [DONE]\n\n"


def gemini_answer(step: Step) -> dict[str, Any]:
    """Return the answer as Gemini has it."""
    parts: list[dict[str, Any]] = [{"text": step.text}] if step.text else []
    parts += [{"functionCall": {"id": id, "name": name, "args": given}} for id, name, given in step.calls]
    counts = {
        "promptTokenCount": step.tokens, "candidatesTokenCount": 20, "totalTokenCount": step.tokens + 25,
        "cachedContentTokenCount": 30, "thoughtsTokenCount": 5,
    }  # fmt: skip
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": counts,
        "modelVersion": "test-model",
    }
