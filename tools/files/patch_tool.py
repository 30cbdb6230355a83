"""The tool `patch`: changes parts of files, by quoting them or by a patch over several files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tools.context import FileMemory, ToolContext
from tools.files.access import Access, explain, missing
from tools.files.committing import SETTING, ChangedMeanwhile, commit, written_down
from tools.files.diffs import diff_texts, shorten_diff
from tools.files.editor_text import send_to_editor, unsaved_text
from tools.files.hunk_application import replace_text
from tools.files.patch_text import DeleteFile, Operation, UpdateFile, parse_patch
from tools.files.planning import Delete, PatchPlan, Rename, Simulation, Write, load_text
from tools.files.scanning import digest_of, remember_written, warning_before_change
from tools.files.syntax import check_syntax
from tools.kit.files import entry_status
from tools.registry import registry, tool_schema
from tools.results import DiffDetail, Display, ToolError, error_text
from tools.services.diagnostics import Diagnostics, FileEdit, edit_of
from tools.services.editor import EditorSide

NAME = "patch"
TRIES = 3
"""How often a patch is planned again because a file changed while it waited."""

SCHEMA: dict[str, Any] = tool_schema(
    (
        "Change parts of text files. mode=replace: replace old_string (quoted from the file, unique unless "
        "replace_all) by new_string in path. mode=patch: change several files with a V4A patch: "
        "*** Begin Patch / *** Update File: p (or Add File, Delete File, Move File: a -> b) / "
        "@@ nearby line / lines starting with space, - or + / *** End Patch. "
        "All or nothing is written."
    ),
    "mode",
    mode={"type": "string", "enum": ["replace", "patch"]},
    path={"type": "string"},
    old_string={"type": "string"},
    new_string={"type": "string"},
    replace_all={"type": "boolean"},
    patch={"type": "string"},
)


async def patch(args: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
    """Handle a call of the tool `patch`. See `SCHEMA`."""
    access = await asyncio.to_thread(Access, ctx, NAME)
    if args["mode"] == "replace":
        return await _replace(args, ctx, access)
    text = args.get("patch")
    if not text:
        raise ToolError("mode patch needs the parameter patch.")
    operations = await asyncio.to_thread(parse_patch, text)
    for path in await asyncio.to_thread(_sources, operations, access):
        await access.permit_read(path)
        await _permit_saving(path, ctx, access)
    return await _apply(lambda: Simulation(access).run(operations), ctx, access)


async def _replace(args: dict[str, Any], ctx: ToolContext, access: Access) -> dict[str, Any]:
    for name in ("path", "old_string", "new_string"):
        if args.get(name) is None:
            raise ToolError(f"mode replace needs the parameter {name}.")
    path = await asyncio.to_thread(access.target, args["path"])
    await access.permit_read(path)
    await _permit_saving(path, ctx, access)
    return await _apply(lambda: _plan_replacement(path, args, access, ctx.workspace), ctx, access)


async def _permit_saving(path: Path, ctx: ToolContext, access: Access) -> None:
    """Request permission to save unsaved editor text. Raises `ToolError` if the disk changed as well."""
    editor = ctx.service(EditorSide)
    found = await unsaved_text(editor, path)
    if found is not None and found.behind:
        raise found.refusal(access.name(path))
    if found is not None and editor.writes:
        await access.permit_write(path, creates=False)


async def _apply(make_plan: Callable[[], PatchPlan], ctx: ToolContext, access: Access) -> dict[str, Any]:
    """Plan the change, request permission and carry it out; repeat up to `TRIES` times if a file changes."""
    for _ in range(TRIES):
        plan = await asyncio.to_thread(make_plan)
        await _permit_effects(plan, access)
        try:
            return await _carry_out(plan, ctx, access)
        except ChangedMeanwhile:
            continue
    raise ToolError("The files keep changing on disk; nothing was written. Try again later.")


def _plan_replacement(path: Path, args: Mapping[str, Any], access: Access, workspace: Path) -> PatchPlan:
    name = access.name(path)
    if not _exists(path):
        raise missing(path, name, workspace)
    before, file = load_text(path, name)
    replaced = replace_text(
        file, args["old_string"], args["new_string"], everywhere=bool(args.get("replace_all")), name=name
    )
    return PatchPlan(
        effects=(Write(path, replaced.file.encode(), before),),
        diffs=(diff_texts(file.text, replaced.file.text, f"a/{name}", f"b/{name}"),),
        strategies=(replaced.strategy,),
        replacements=replaced.count,
    )


def _sources(operations: tuple[Operation, ...], access: Access) -> list[Path]:
    """Return the existing files whose content the patch needs. Raises `ToolError` for protected files."""
    sources: list[Path] = []
    for operation in operations:
        if isinstance(operation, UpdateFile) and operation.hunks:
            paths = [access.target(name) for name in (operation.path, *operation.other_names)]
            sources.extend(path for path in paths if _exists(path))
        elif isinstance(operation, DeleteFile) and operation.hunks:
            path = access.entry(operation.path)
            sources.extend([path] if _exists(path) else [])
        elif isinstance(operation, UpdateFile | DeleteFile):
            path = access.entry(operation.path)
            access.guard.check_write(path, access.name(path))
    return sources


async def _permit_effects(plan: PatchPlan, access: Access) -> None:
    for effect in plan.effects:
        match effect:
            case Write(path=path, before=before):
                await access.permit_write(path, creates=before is None)
            case Rename(source=source, target=target):
                await access.permit_delete(source)
                await access.permit_write(target, creates=True)
            case Delete(path=path):
                await access.permit_delete(path)


async def _carry_out(plan: PatchPlan, ctx: ToolContext, access: Access) -> dict[str, Any]:
    warnings = [
        warning
        for effect in plan.effects
        if isinstance(effect, Write) and effect.before is not None and effect.before.data is not None
        if (
            warning := warning_before_change(
                ctx.service(FileMemory),
                effect.path,
                digest_of(effect.before.data, effect.before.status),
                access.name(effect.path),
            )
        )
    ]
    await asyncio.to_thread(_commit, plan, ctx, access)
    await asyncio.to_thread(_remember, plan, ctx)
    result = _report(plan, access)
    writes = [effect for effect in plan.effects if isinstance(effect, Write)]
    if notes := await send_to_editor(ctx.service(EditorSide), writes, access.name):
        result["note"] = " ".join(notes)
    if warnings:
        result["warning"] = " ".join(warnings)
    lint = [
        {"path": access.name(effect.path), **finding}
        for effect in plan.effects
        if isinstance(effect, Write)
        if (finding := await check_syntax(effect.path, effect.data)) is not None
    ]
    if lint:
        result["lint"] = lint[0] if len(lint) == 1 else lint
    if found := await ctx.service(Diagnostics).after(_edits(plan)):
        result["diagnostics"] = found
    return result


def _edits(plan: PatchPlan) -> list[FileEdit]:
    """Return the edits for language servers. A moved file counts as removed under its old name."""
    edits: list[FileEdit | None] = []
    for effect in plan.effects:
        match effect:
            case Write(path=path, data=data, before=before):
                edits.append(edit_of(path, None if before is None else before.data, data))
            case Rename(source=path) | Delete(path=path):
                edits.append(FileEdit(path=path, before=None, after=None))
    return [each for each in edits if each is not None]


def _commit(plan: PatchPlan, ctx: ToolContext, access: Access) -> None:
    folder = ctx.options.get(SETTING)
    place = Path(folder) if folder else None
    try:
        with written_down(place, plan.effects, ctx.task, ctx.workspace) as token:
            commit(plan.effects, access.name, token)
    except OSError as error:
        raise explain(error, "note what is about to be changed") from error


def _remember(plan: PatchPlan, ctx: ToolContext) -> None:
    files = ctx.service(FileMemory)
    for effect in plan.effects:
        match effect:
            case Write(path=path, data=data):
                status = entry_status(path)
                if status is not None:
                    remember_written(files, path, data, status)
            case Rename(source=path) | Delete(path=path):
                files.forget(path)


def _report(plan: PatchPlan, access: Access) -> dict[str, Any]:
    moved_from = {source for source, _ in plan.moved}
    moved_to = {target for _, target in plan.moved}
    writes = [effect for effect in plan.effects if isinstance(effect, Write) and effect.path not in moved_to]
    changes = {
        "files_modified": [access.name(write.path) for write in writes if write.before is not None],
        "files_created": [access.name(write.path) for write in writes if write.before is None],
        "files_deleted": [
            access.name(effect.path)
            for effect in plan.effects
            if isinstance(effect, Delete) and effect.path not in moved_from
        ],
        "files_moved": [f"{access.name(source)} -> {access.name(target)}" for source, target in plan.moved],
    }
    result: dict[str, Any] = {"success": True, **{key: names for key, names in changes.items() if names}}
    if plan.replacements:
        result["replacements"] = plan.replacements
    if plan.strategies:
        result["strategy"] = ", ".join(plan.strategies)
    result["added"] = sum(diff.added for diff in plan.diffs)
    result["removed"] = sum(diff.removed for diff in plan.diffs)
    result["diff"] = shorten_diff("".join(diff.text for diff in plan.diffs))
    return result


def _exists(path: Path) -> bool:
    """Return whether anything exists at `path`; True if that cannot be found out."""
    try:
        return entry_status(path) is not None
    except OSError:
        return True


def describe(args: dict[str, Any], result: Mapping[str, Any] | None) -> Display:
    """Return a display such as `edit src/money.py · +6 −3`, with the diff as detail."""
    subject = str(args.get("path") or "files")
    if result is None or result.get("error"):
        return Display("edit", subject, error_text(result))
    touched = [
        str(name).rpartition(" -> ")[2]
        for key in ("files_modified", "files_created", "files_deleted", "files_moved")
        for name in result.get(key, ())
    ]
    if touched:
        subject = touched[0] if len(touched) == 1 else f"{len(touched)} files"
    summary = f"+{result.get('added', 0)} −{result.get('removed', 0)}"
    return Display("edit", subject, summary, DiffDetail(str(result.get("diff", ""))))


registry.register(
    NAME,
    "file",
    SCHEMA,
    patch,
    describe=describe,
    place=22,
    bundles=("default", "debugging"),
    traits=("for_scripts",),
)
