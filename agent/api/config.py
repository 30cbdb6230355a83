"""Settings: where they come from, what they mean, changing them in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.core.config import trust as trust
    from agent.core.config.document import parse as parse
    from agent.core.config.edit import drop_entry as drop_entry
    from agent.core.config.edit import put_entry as put_entry
    from agent.core.config.edit import set_setting as set_setting
    from agent.core.config.edit import set_value as set_value
    from agent.core.config.edit import setting_value as setting_value
    from agent.core.config.edit import unset_setting as unset_setting
    from agent.core.config.env_file import keep_key as keep_key
    from agent.core.config.environment import OVERRIDES as OVERRIDES
    from agent.core.config.layers import SettingSource as SettingSource
    from agent.core.config.layers import leaves as leaves
    from agent.core.config.layers import lookup as lookup
    from agent.core.config.loader import PROJECT_FILE as PROJECT_FILE
    from agent.core.config.loader import LoadedSettings as LoadedSettings
    from agent.core.config.loader import load as load
    from agent.core.config.problem import Path as Path
    from agent.core.config.problem import dotted as dotted
    from agent.core.config.reference import default as default
    from agent.core.config.schema import CheckpointSettings as CheckpointSettings
    from agent.core.config.schema import DisplaySettings as DisplaySettings
    from agent.core.config.schema import Settings as Settings
    from agent.core.config.settings_file import UnreadableSettingsError as UnreadableSettingsError
    from agent.core.config.trust import ProjectSettings as ProjectSettings
    from agent.core.config.trust import read_agent as read_agent

__getattr__ = exports(
    __name__,
    {
        "agent.core.config": "setting_names trust",
        "agent.core.config.document": "parse",
        "agent.core.config.edit": "drop_entry put_entry set_setting set_value setting_value unset_setting",
        "agent.core.config.env_file": "keep_key",
        "agent.core.config.environment": "OVERRIDES",
        "agent.core.config.settings_file": "UnreadableSettingsError",
        "agent.core.config.layers": "SettingSource leaves lookup",
        "agent.core.config.loader": "LoadedSettings PROJECT_FILE load",
        "agent.core.config.problem": "Path dotted",
        "agent.core.config.reference": "default",
        "agent.core.config.schema": "CheckpointSettings DisplaySettings Settings",
        "agent.core.config.trust": "ProjectSettings read_agent",
    },
)
