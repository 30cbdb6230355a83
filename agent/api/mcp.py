"""MCP servers: which there are, what they offer, how they do; and one by itself, for the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.core.config.edit import drop_entry as drop_entry
    from agent.core.config.edit import put_entry as put_entry
    from agent.core.config.schema import McpServerSettings as McpServerSettings
    from agent.core.event_data import FormReply as FormReply
    from agent.integrations.mcp.agreement import ServerAgreement as ServerAgreement
    from agent.integrations.mcp.catalog import PromptDefinition as PromptDefinition
    from agent.integrations.mcp.catalog import ServerCatalog as ServerCatalog
    from agent.integrations.mcp.catalog import forget_catalog as forget_catalog
    from agent.integrations.mcp.catalog import listed as listed
    from agent.integrations.mcp.catalog import load_catalog as load_catalog
    from agent.integrations.mcp.catalog import save_catalog as save_catalog
    from agent.integrations.mcp.declared import DeclaredServer as DeclaredServer
    from agent.integrations.mcp.declared import DeclaredServers as DeclaredServers
    from agent.integrations.mcp.declared import declared_servers as declared_servers
    from agent.integrations.mcp.elicitation import with_defaults as with_defaults
    from agent.integrations.mcp.errors import ServerError as ServerError
    from agent.integrations.mcp.forms import FormField as FormField
    from agent.integrations.mcp.forms import filled_form as filled_form
    from agent.integrations.mcp.health import Health as Health
    from agent.integrations.mcp.host_process import RefusedError as RefusedError
    from agent.integrations.mcp.launch import Protocol as Protocol
    from agent.integrations.mcp.prompts import listed_prompts as listed_prompts
    from agent.integrations.mcp.prompts import prompt_names as prompt_names
    from agent.integrations.mcp.server import Server as Server
    from agent.integrations.mcp.server_config import ServerConfig as ServerConfig
    from agent.integrations.mcp.server_config import address_config as address_config
    from agent.integrations.mcp.server_config import server_config as server_config
    from agent.integrations.mcp.server_state import ServerState as ServerState
    from agent.integrations.mcp.server_state import ToolState as ToolState
    from agent.integrations.mcp.starting import LaunchEnvironment as LaunchEnvironment
    from agent.integrations.mcp.starting import launch_of as launch_of
    from agent.integrations.mcp.starting import token_path as token_path
    from agent.integrations.mcp.tokens import TokenFile as TokenFile
    from agent.integrations.mcp.tool_definition import ToolDefinition as ToolDefinition
    from agent.integrations.server_events import FormAsked as FormAsked
    from agent.integrations.server_events import ServerLogged as ServerLogged
    from agent.session.wiring.plugin_servers import with_plugin_servers as with_plugin_servers

__getattr__ = exports(
    __name__,
    {
        "agent.session.wiring.plugin_servers": "with_plugin_servers",
        "agent.core.config.edit": "drop_entry put_entry",
        "agent.core.config.schema": "McpServerSettings",
        "agent.integrations.mcp.agreement": "ServerAgreement",
        "agent.integrations.mcp.catalog": "ServerCatalog PromptDefinition forget_catalog listed load_catalog "
        "save_catalog",
        "agent.integrations.mcp.declared": "DeclaredServer DeclaredServers declared_servers",
        "agent.integrations.mcp.elicitation": "with_defaults",
        "agent.integrations.mcp.errors": "ServerError",
        "agent.integrations.mcp.forms": "FormField filled_form",
        "agent.integrations.mcp.health": "Health",
        "agent.integrations.mcp.host_process": "RefusedError",
        "agent.integrations.mcp.launch": "Protocol",
        "agent.integrations.mcp.prompts": "listed_prompts prompt_names",
        "agent.integrations.mcp.server": "Server",
        "agent.integrations.mcp.server_config": "ServerConfig address_config server_config",
        "agent.core.event_data": "FormReply",
        "agent.integrations.server_events": "FormAsked ServerLogged",
        "agent.integrations.mcp.server_state": "ServerState ToolState",
        "agent.integrations.mcp.starting": "LaunchEnvironment launch_of token_path",
        "agent.integrations.mcp.tool_definition": "ToolDefinition",
        "agent.integrations.mcp.tokens": "TokenFile",
    },
)
