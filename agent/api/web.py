"""The program's access to the network, which tests can replace (docs/web.md)."""

from agent.core.net.exchange import Network as Network
from agent.core.net.exchange import use_network as use_network
