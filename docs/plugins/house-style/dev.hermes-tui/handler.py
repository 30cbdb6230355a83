"""Judges commit messages, and asks before one is used that is not in the house style."""

import re
import shlex

LONGEST = 72


def faults(message):
    subject, _, rest = message.strip().partition("\n")
    found = []
    if len(subject) > LONGEST:
        found.append(f"the subject has {len(subject)} characters; {LONGEST} are enough")
    if not re.match(r"[A-Z]", subject):
        found.append("the subject does not begin with a capital letter")
    if subject.endswith("."):
        found.append("the subject ends with a full stop")
    if rest and not rest.startswith("\n"):
        found.append("there is no empty line below the subject")
    return found


def judge(arguments):
    found = faults(arguments["message"])
    return {"good": not found, "faults": found}


def before_commit(event):
    """Ask the person about a commit whose message is not in the house style."""
    if event["tool"] != "terminal":
        return None
    try:
        words = shlex.split(event["arguments"].get("command", ""))
    except ValueError:
        return None
    if words[:2] != ["git", "commit"] or "-m" not in words[:-1]:
        return None
    found = faults(words[words.index("-m") + 1])
    return {"decision": "ask", "reason": "; ".join(found)} if found else None


def register(ctx):
    ctx.register_tool(
        "judge_commit_message",
        "Judge whether a commit message is in the house style.",
        {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
        judge,
    )
    ctx.register_hook("before_tool", before_commit)
