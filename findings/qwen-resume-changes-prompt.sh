#!/bin/sh
# Qwen Code 0.24.4: a prompt that was sent with a reminder of the date before it is sent without after the next resume.
# So the beginning of the conversation is not what it was, and nothing behind that can come from a prompt cache.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
npm install --silent --no-audit --no-fund --prefix "$place" node@24 @qwen-code/qwen-code@0.24.4
python3 "$here/ask_agents.py" "$place" <<'PROGRAM'
print("qwen-code", run("qwen", "--version").strip())
(home / ".qwen").mkdir(exist_ok=True)
(home / ".qwen" / "settings.json").write_text(json.dumps({"security": {"auth": {"selectedType": "openai"}}}))
words = ("qwen", "-y", "--auth-type", "openai", "--openai-api-key", "k", "-m", "m")
words += ("--openai-base-url", f"{address}/v1")
run(*words, "-p", "The first prompt.")
(id,) = [each.stem for each in home.glob(".qwen/projects/*/chats/*.jsonl")]
run(*words, "-r", id, "-p", "The second prompt.")
run(*words, "-r", id, "-p", "The third prompt.")
sent = {"second": [], "third": []}
for body in asked:
    texts = [json.dumps(message["content"]) for message in body["messages"]]
    for name in sent:
        if f"The {name} prompt." in texts[-1] and not sent[name]:
            sent[name] = [text for text in texts if "The second prompt." in text]
for name, texts in sent.items():
    print(f"the second prompt in the request of the {name}:", texts[0][:60], "…", texts[0][-40:])
print("expected: the same text twice")
assert "The current date is" in sent["second"][0] and "The current date is" not in sent["third"][0]
PROGRAM
