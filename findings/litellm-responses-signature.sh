#!/bin/sh
# LiteLLM proxy 1.106.12: over the Responses API, the signature of Claude's thoughts is missing from the
# event that completes their item; only the whole response at the very end has it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
python="$place/venv/bin/python"
"$python" -m pip install -q --only-binary=:all: 'litellm[proxy]==1.106.12'
"$python" "$here/ask_litellm.py" anthropic/claude-sonnet-4-5 <<'PROGRAM'
head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": []}
usage = {"usage": {"input_tokens": 9, "output_tokens": 1}}
thought = {"type": "thinking", "thinking": "", "signature": ""}
events = [
    {"type": "message_start", "message": {**head, "stop_reason": None, "stop_sequence": None, **usage}},
    {"type": "content_block_start", "index": 0, "content_block": thought},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2lnbmVk"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Yes."}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]
stream = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events).encode()
answers.append((200, {"content-type": "text/event-stream"}, stream))
wanted = {"reasoning": {"effort": "low"}, "include": ["reasoning.encrypted_content"], "store": False}
text = post("/v1/responses", {"input": "hi", "stream": True, "max_output_tokens": 4000, **wanted})[2]
came = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
done = [each["item"] for each in came if each["type"] == "response.output_item.done"]
done = next(each for each in done if each["type"] == "reasoning")
last = next(each for each in came[-1]["response"]["output"] if each["type"] == "reasoning")
print("response.output_item.done:", sorted(done), done.get("encrypted_content"))
print(f"{came[-1]['type']}:", sorted(last), last.get("encrypted_content"))
print("expected: encrypted_content in both, as it was asked for with `include`")
assert not done.get("encrypted_content") and "c2lnbmVk" in last["encrypted_content"]
PROGRAM
