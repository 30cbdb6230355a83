"""Plugins: those there are, agreeing to them, installing, beginning and testing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.integrations.plugins.cases import CaseResult as CaseResult
    from agent.integrations.plugins.cases import read_cases as read_cases
    from agent.integrations.plugins.cases import run_cases as run_cases
    from agent.integrations.plugins.consent import ConsentFile as ConsentFile
    from agent.integrations.plugins.creating import create as create
    from agent.integrations.plugins.differences import PluginDifference as PluginDifference
    from agent.integrations.plugins.differences import differences as differences
    from agent.integrations.plugins.differences import lines_of as lines_of
    from agent.integrations.plugins.enabling import Agreement as Agreement
    from agent.integrations.plugins.enabling import PluginEnvironment as PluginEnvironment
    from agent.integrations.plugins.enabling import card as card
    from agent.integrations.plugins.enabling import enable as enable
    from agent.integrations.plugins.enabling import taken_names as taken_names
    from agent.integrations.plugins.enabling import withdraw as withdraw
    from agent.integrations.plugins.failure import PluginFailure as PluginFailure
    from agent.integrations.plugins.files import digest as digest
    from agent.integrations.plugins.files import hashes as hashes
    from agent.integrations.plugins.installing import put_in_place as put_in_place
    from agent.integrations.plugins.installing import staged as staged
    from agent.integrations.plugins.installing import uninstall as uninstall
    from agent.integrations.plugins.manifest import is_name as is_name
    from agent.integrations.plugins.package import PluginPackage as PluginPackage
    from agent.integrations.plugins.package import read_plugin as read_plugin
    from agent.integrations.plugins.problem import PluginError as PluginError
    from agent.integrations.plugins.problem import PluginFailedError as PluginFailedError
    from agent.integrations.plugins.problem import quoted as quoted
    from agent.integrations.plugins.registrations import RegisteredProvider as RegisteredProvider
    from agent.integrations.plugins.registrations import Registrations as Registrations
    from agent.integrations.plugins.runner import PluginRunner as PluginRunner
    from agent.integrations.plugins.shelf import ShelvedPlugin as ShelvedPlugin
    from agent.integrations.plugins.shelf import find as find
    from agent.integrations.plugins.shelf import find_agreed as find_agreed

__getattr__ = exports(
    __name__,
    {
        "agent.integrations.plugins.cases": "CaseResult read_cases run_cases",
        "agent.integrations.plugins.consent": "ConsentFile",
        "agent.integrations.plugins.creating": "create",
        "agent.integrations.plugins.differences": "PluginDifference differences lines_of",
        "agent.integrations.plugins.enabling": "Agreement PluginEnvironment card enable taken_names withdraw",
        "agent.integrations.plugins.failure": "PluginFailure",
        "agent.integrations.plugins.files": "digest hashes",
        "agent.integrations.plugins.installing": "put_in_place staged uninstall",
        "agent.integrations.plugins.manifest": "is_name",
        "agent.integrations.plugins.package": "PluginPackage read_plugin",
        "agent.integrations.plugins.problem": "PluginError PluginFailedError quoted",
        "agent.integrations.plugins.registrations": "RegisteredProvider Registrations",
        "agent.integrations.plugins.runner": "PluginRunner",
        "agent.integrations.plugins.shelf": "ShelvedPlugin find find_agreed",
    },
)
