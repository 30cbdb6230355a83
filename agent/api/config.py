"""Settings: where they come from, what they mean, changing them in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.config import trust as trust
    from agent.config.document import parse as parse
    from agent.config.edit import drop_entry as drop_entry
    from agent.config.edit import put_entry as put_entry
    from agent.config.edit import set_setting as set_setting
    from agent.config.edit import set_value as set_value
    from agent.config.edit import setting_value as setting_value
    from agent.config.edit import unset_setting as unset_setting
    from agent.config.env_file import keep_key as keep_key
    from agent.config.environment import OVERRIDES as OVERRIDES
    from agent.config.layers import SettingSource as SettingSource
    from agent.config.layers import leaves as leaves
    from agent.config.layers import lookup as lookup
    from agent.config.loader import PROJECT_FILE as PROJECT_FILE
    from agent.config.loader import LoadedSettings as LoadedSettings
    from agent.config.loader import load as load
    from agent.config.problem import Path as Path
    from agent.config.problem import dotted as dotted
    from agent.config.reference import default as default
    from agent.config.schema import CheckpointSettings as CheckpointSettings
    from agent.config.schema import DisplaySettings as DisplaySettings
    from agent.config.schema import Settings as Settings
    from agent.config.settings_file import UnreadableSettingsError as UnreadableSettingsError
    from agent.config.trust import ProjectSettings as ProjectSettings
    from agent.config.trust import read_agent as read_agent

__getattr__ = exports(
    __name__,
    {
        "agent.config": "setting_names trust",
        "agent.config.document": "parse",
        "agent.config.edit": "drop_entry put_entry set_setting set_value setting_value unset_setting",
        "agent.config.env_file": "keep_key",
        "agent.config.environment": "OVERRIDES",
        "agent.config.settings_file": "UnreadableSettingsError",
        "agent.config.layers": "SettingSource leaves lookup",
        "agent.config.loader": "LoadedSettings PROJECT_FILE load",
        "agent.config.problem": "Path dotted",
        "agent.config.reference": "default",
        "agent.config.schema": "CheckpointSettings DisplaySettings Settings",
        "agent.config.trust": "ProjectSettings read_agent",
    },
)
