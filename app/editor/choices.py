"""Modes, models, efforts and commands in the protocol's form. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from acp import schema

from agent.core.messages import MODES, SUMMARIES, Mode
from agent.model.model_choices import ModelChoice
from app.editor.commands import COMMANDS
from tools.text.safe_text import clean
from tools.text.words import one_line

MODE, MODEL, EFFORT = "mode", "model", "effort"
"""Ids of the options."""
EFFORTS = ("default", "off", "low", "medium", "high")


def modes(current: Mode) -> schema.SessionModeState:
    """Return the permission modes, and which one is current."""
    return schema.SessionModeState(
        current_mode_id=current,
        available_modes=[
            schema.SessionMode(id=mode, name=mode.capitalize(), description=_sentence(SUMMARIES[mode]))
            for mode in MODES
        ],
    )


def options(
    mode: Mode, model: str, effort: str, models: Sequence[ModelChoice]
) -> list[schema.SessionConfigOptionSelect]:
    """Return the options mode, model and effort, each with its current value."""
    usable = {each.label: each.name for each in reversed(models) if not each.problem}
    chosen = usable.pop(model, model)
    names = [(chosen, model), *((name, label) for label, name in sorted(usable.items()) if name != chosen)]
    return [
        _select(MODE, "Mode", "mode", mode, [(each, each.capitalize()) for each in MODES]),
        _select(MODEL, "Model", "model", chosen, names),
        _select(
            EFFORT,
            "Effort",
            "thought_level",
            effort or EFFORTS[0],
            [(each, each.capitalize()) for each in (*EFFORTS, *_other(effort))],
        ),
    ]


def _other(effort: str) -> tuple[str, ...]:
    """Return the effort if it is not one of the usual ones, such as a number of tokens; else an
    empty tuple.
    """
    return (effort,) if effort and effort not in EFFORTS else ()


def _select(
    id: str, name: str, category: str, current: str, values: Sequence[tuple[str, str]]
) -> schema.SessionConfigOptionSelect:
    return schema.SessionConfigOptionSelect.model_validate(
        {
            "type": "select",
            "id": id,
            "name": name,
            "category": category,
            "currentValue": current,
            "options": [{"value": value, "name": clean(label)} for value, label in values],
        }
    )


def commands(skills: Sequence[tuple[str, str]]) -> schema.AvailableCommandsUpdate:
    """Return the slash commands: those of Hermes, then the skills, given as pairs of name and description."""
    own = [_command(each.name, each.description, each.hint) for each in COMMANDS.values()]
    found = [_command(name, text, "what it is to work on") for name, text in skills if name not in COMMANDS]
    return schema.AvailableCommandsUpdate(
        session_update="available_commands_update", available_commands=[*own, *found]
    )


def _command(name: str, description: str, hint: str) -> schema.AvailableCommand:
    shown = one_line(description)[:300]
    given = schema.AvailableCommandInput(root=schema.UnstructuredCommandInput(hint=hint)) if hint else None
    return schema.AvailableCommand(name=name, description=shown, input=given)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
