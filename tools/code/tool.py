"""`execute_code`: runs a script that the model wrote instead of many calls."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from themes.states import glyph
from tools.code.data import Clock, CodeJob, CodeLimits, CodeOutcome, CodeProgress
from tools.code.runner import AVAILABLE, CodeRunner
from tools.code.stubs import is_allowed
from tools.context import InnerCaller, ToolContext
from tools.kit.threads import on_thread
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, TextDetail, ToolError
from tools.services.actions import RunScript
from tools.terminal.terminals import Terminals
from tools.text.safe_text import clean
from tools.text.words import plural

DESCRIPTION = """\
Run a Python script that calls tools as functions; only what it prints comes back. For three or more calls \
with logic between them, not for results you have to read yourself.
{imports}
Each takes the parameters of its tool by name and returns a dict; a failed call returns {"error": ...}. \
Also there: parse_json, shell_quote, retry(fn, attempts, delay), gather(*functions) for calls in parallel. \
Use these for files, commands and the web: the script itself reaches listed hosts at most, and no .env or \
key files. Only files and the folder of terminal() are kept between scripts."""

STATUSES = {"ok": "success"}
"""The statuses in results that differ from the runner's."""

COMPLETE = frozenset({"ok", "error"})
"""Statuses of scripts that finished; for the others a record is kept to continue from."""


def job_of(arguments: Mapping[str, Any], context: ToolContext) -> CodeJob:
    """Return the script as a job for the runner."""
    caller = context.service(InnerCaller)
    options = context.options
    limits = CodeLimits()
    return CodeJob(
        script=str(arguments["code"]),
        folder=context.workspace,
        tools=caller.offered(),
        known=caller.all_tools(),
        limits=CodeLimits(
            seconds=options.get("code.timeout", limits.seconds),
            calls=options.get("code.max_calls", limits.calls),
            output=options.get("code.stdout", limits.output),
            errors=options.get("code.stderr", limits.errors),
        ),
        mode=arguments.get("mode") or options.get("code.mode", "strict"),
        environ=options.get("code.environ", {}),
        task=context.task,
        session=arguments.get("session") or None,
        reset=bool(arguments.get("reset")),
    )


async def execute_code(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Run the script; every call it makes needs permission and is shown and recorded like any other."""
    caller = context.service(InnerCaller)
    runner = context.service(CodeRunner)
    terminals = context.service(Terminals)
    job = job_of(arguments, context)
    if not job.script.strip():
        raise ToolError("The script is empty; give `code` something to run.")
    if earlier := str(arguments.get("resume") or "").strip():
        await caller.resume(earlier)
    clock = Clock()
    await context.permit(RunScript(tool="execute_code", code=job.script, sandboxed=caller.confined()))

    @contextmanager
    def waiting():
        with clock.paused():
            yield

    async def serve(tool: str, inner: dict[str, Any]) -> str:
        return await caller.run(tool, inner, waiting)

    begun = time.monotonic()
    outcome = await runner.run(job, serve, _ScriptProgress(context), clock=clock, permit=context.permit)
    result = result_of(outcome)
    notes = [await caller.end_script(outcome.status in COMPLETE)]
    if outcome.status != "ok":
        notes.append(terminals.missing_variable_hint(outcome.stderr, runner.variables_for(job)) or "")
        if (boundary := terminals.boundary) is not None:
            notes.append(await on_thread(partial(boundary.refusal, outcome.stderr, network=True)))
    notes.append(runner.hosts_refused(begun))
    if note := " ".join(filter(None, notes)):
        result["note"] = note
    return result


class _ScriptProgress:
    """A converter of progress into live output: a line for each ended call, and the newest output."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._printed = ""

    def __call__(self, progress: CodeProgress) -> None:
        lines: list[str] = []
        for call in progress.finished:
            mark = glyph("done" if call.ok else "failed")
            lines.append(
                f"{mark} {call.number}/{progress.limit} {call.tool} {call.arguments}  {call.duration:.1f} s"
            )
        last = progress.output.rstrip("\n").rpartition("\n")[2]
        if last and last != self._printed:
            self._printed = last
            lines.append(f"  {last}")
        if lines:
            self._context.progress("\n".join(lines) + "\n")


def result_of(outcome: CodeOutcome) -> dict[str, Any]:
    """Return the result of a run for the model. If the run failed in any way, the result contains `error`."""
    result: dict[str, Any] = {"status": STATUSES.get(outcome.status, outcome.status)}
    if outcome.status != "ok":
        result["error"] = outcome.message
    result |= {
        "output": outcome.stdout,
        "errors": outcome.stderr,
        "tool_calls_made": outcome.calls_made,
        "duration_seconds": round(outcome.duration, 2),
    }
    if outcome.exit_code:
        result["exit_code"] = outcome.exit_code
    return result


def patch_schema(definition: dict[str, Any], on_offer: frozenset[str]) -> dict[str, Any]:
    """Return the definition with the functions that scripts can call in this session."""
    scripts = registry.with_trait("for_scripts")
    names = sorted(name for name in on_offer if name in scripts or is_allowed(name))
    line = (
        f"Import from hermes_tools: {', '.join(map(_signature, names))}"
        if names
        else "No tools are on offer."
    )
    return {**definition, "description": DESCRIPTION.replace("{imports}", line)}


def _signature(name: str) -> str:
    entry = registry.get(name)
    required = entry.schema["parameters"].get("required", []) if entry is not None else []
    return f"{name}({', '.join(required)})"


def describe(arguments: Mapping[str, Any], result: Mapping[str, Any] | None) -> Display:
    """Return a display such as `✓ code count the callers · 4 calls · 1.2 s`."""
    code = clean(str(arguments.get("code", "")))
    subject = _title(code)
    if result is None:
        return Display("code", subject, detail=TextDetail(code, "python"))
    calls = result.get("tool_calls_made")
    parts = [plural(calls, "call")] if isinstance(calls, int) else []
    if result.get("error"):
        parts.insert(0, clean(str(result["error"])).split("\n")[0][:160])
    texts = [clean(str(result.get(name) or "")).rstrip() for name in ("output", "errors")]
    shown = "\n".join(text for text in texts if text)
    return Display("code", subject, " · ".join(parts), TextDetail(f"{code.rstrip()}\n\n{shown}".strip()))


def _title(code: str) -> str:
    """Return the title of a script: its first comment, or its first line of code that is not an import."""
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    comment = next((line.lstrip("# ") for line in lines if line.startswith("#")), "")
    acts = next((line for line in lines if not line.startswith(("#", "import ", "from "))), "")
    return (comment or acts or (lines[0] if lines else "script"))[:100]


registry.register(
    name="execute_code",
    toolset="code",
    schema=tool_schema(
        DESCRIPTION.replace("{imports}", "from hermes_tools import ..."),
        "code",
        code={"type": "string"},
        mode={
            "type": "string",
            "enum": ["strict", "project"],
            "description": "project: its own interpreter and packages.",
        },
        session={
            "type": "string",
            "description": "Name of an interpreter that keeps its variables.",
        },
        reset={"type": "boolean"},
        resume={
            "type": "string",
            "description": "Id of a cut-off script, with the same code.",
        },
    ),
    handler=execute_code,
    check_fn=lambda: AVAILABLE,
    describe=describe,
    patch=patch_schema,
    place=90,
    bundles=("default",),
)
