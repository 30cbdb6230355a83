"""Plugins: those there are, agreeing to them, installing, beginning and testing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.plugins.cases import CaseResult as CaseResult
    from agent.plugins.cases import read_cases as read_cases
    from agent.plugins.cases import run_cases as run_cases
    from agent.plugins.consent import ConsentFile as ConsentFile
    from agent.plugins.creating import create as create
    from agent.plugins.differences import PluginDifference as PluginDifference
    from agent.plugins.differences import differences as differences
    from agent.plugins.differences import lines_of as lines_of
    from agent.plugins.enabling import Agreement as Agreement
    from agent.plugins.enabling import PluginEnvironment as PluginEnvironment
    from agent.plugins.enabling import card as card
    from agent.plugins.enabling import enable as enable
    from agent.plugins.enabling import taken_names as taken_names
    from agent.plugins.enabling import withdraw as withdraw
    from agent.plugins.failure import PluginFailure as PluginFailure
    from agent.plugins.files import digest as digest
    from agent.plugins.files import hashes as hashes
    from agent.plugins.installing import put_in_place as put_in_place
    from agent.plugins.installing import staged as staged
    from agent.plugins.installing import uninstall as uninstall
    from agent.plugins.manifest import is_name as is_name
    from agent.plugins.package import PluginPackage as PluginPackage
    from agent.plugins.package import read_plugin as read_plugin
    from agent.plugins.problem import PluginError as PluginError
    from agent.plugins.problem import PluginFailedError as PluginFailedError
    from agent.plugins.problem import quoted as quoted
    from agent.plugins.registrations import RegisteredProvider as RegisteredProvider
    from agent.plugins.registrations import Registrations as Registrations
    from agent.plugins.runner import PluginRunner as PluginRunner
    from agent.plugins.shelf import ShelvedPlugin as ShelvedPlugin
    from agent.plugins.shelf import find as find
    from agent.plugins.shelf import find_agreed as find_agreed

__getattr__ = exports(
    __name__,
    {
        "agent.plugins.cases": "CaseResult read_cases run_cases",
        "agent.plugins.consent": "ConsentFile",
        "agent.plugins.creating": "create",
        "agent.plugins.differences": "PluginDifference differences lines_of",
        "agent.plugins.enabling": "Agreement PluginEnvironment card enable taken_names withdraw",
        "agent.plugins.failure": "PluginFailure",
        "agent.plugins.files": "digest hashes",
        "agent.plugins.installing": "put_in_place staged uninstall",
        "agent.plugins.manifest": "is_name",
        "agent.plugins.package": "PluginPackage read_plugin",
        "agent.plugins.problem": "PluginError PluginFailedError quoted",
        "agent.plugins.registrations": "RegisteredProvider Registrations",
        "agent.plugins.runner": "PluginRunner",
        "agent.plugins.shelf": "ShelvedPlugin find find_agreed",
    },
)
