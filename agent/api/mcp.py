"""MCP servers: which there are, what they offer, how they do; and one by itself, for the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.assembly.plugin_servers import with_plugin_servers as with_plugin_servers
    from agent.config.edit import drop_entry as drop_entry
    from agent.config.edit import put_entry as put_entry
    from agent.config.schema import McpServerSettings as McpServerSettings
    from agent.event_data import FormReply as FormReply
    from agent.mcp.agreement import ServerAgreement as ServerAgreement
    from agent.mcp.catalog import PromptDefinition as PromptDefinition
    from agent.mcp.catalog import ServerCatalog as ServerCatalog
    from agent.mcp.catalog import forget_catalog as forget_catalog
    from agent.mcp.catalog import listed as listed
    from agent.mcp.catalog import load_catalog as load_catalog
    from agent.mcp.catalog import save_catalog as save_catalog
    from agent.mcp.declared import DeclaredServer as DeclaredServer
    from agent.mcp.declared import DeclaredServers as DeclaredServers
    from agent.mcp.declared import declared_servers as declared_servers
    from agent.mcp.elicitation import with_defaults as with_defaults
    from agent.mcp.errors import ServerError as ServerError
    from agent.mcp.forms import FormField as FormField
    from agent.mcp.forms import filled_form as filled_form
    from agent.mcp.health import Health as Health
    from agent.mcp.host_process import RefusedError as RefusedError
    from agent.mcp.launch import Protocol as Protocol
    from agent.mcp.prompts import listed_prompts as listed_prompts
    from agent.mcp.prompts import prompt_names as prompt_names
    from agent.mcp.server import Server as Server
    from agent.mcp.server_config import ServerConfig as ServerConfig
    from agent.mcp.server_config import address_config as address_config
    from agent.mcp.server_config import server_config as server_config
    from agent.mcp.server_state import ServerState as ServerState
    from agent.mcp.server_state import ToolState as ToolState
    from agent.mcp.starting import LaunchEnvironment as LaunchEnvironment
    from agent.mcp.starting import launch_of as launch_of
    from agent.mcp.starting import token_path as token_path
    from agent.mcp.tokens import TokenFile as TokenFile
    from agent.mcp.tool_definition import ToolDefinition as ToolDefinition
    from agent.server_events import FormAsked as FormAsked
    from agent.server_events import ServerLogged as ServerLogged

__getattr__ = exports(
    __name__,
    {
        "agent.assembly.plugin_servers": "with_plugin_servers",
        "agent.config.edit": "drop_entry put_entry",
        "agent.config.schema": "McpServerSettings",
        "agent.mcp.agreement": "ServerAgreement",
        "agent.mcp.catalog": "ServerCatalog PromptDefinition forget_catalog listed load_catalog save_catalog",
        "agent.mcp.declared": "DeclaredServer DeclaredServers declared_servers",
        "agent.mcp.elicitation": "with_defaults",
        "agent.mcp.errors": "ServerError",
        "agent.mcp.forms": "FormField filled_form",
        "agent.mcp.health": "Health",
        "agent.mcp.host_process": "RefusedError",
        "agent.mcp.launch": "Protocol",
        "agent.mcp.prompts": "listed_prompts prompt_names",
        "agent.mcp.server": "Server",
        "agent.mcp.server_config": "ServerConfig address_config server_config",
        "agent.event_data": "FormReply",
        "agent.server_events": "FormAsked ServerLogged",
        "agent.mcp.server_state": "ServerState ToolState",
        "agent.mcp.starting": "LaunchEnvironment launch_of token_path",
        "agent.mcp.tool_definition": "ToolDefinition",
        "agent.mcp.tokens": "TokenFile",
    },
)
