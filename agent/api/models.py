"""Models, providers, servers on this machine, and the local model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.model.addresses import is_loopback as is_loopback
    from agent.model.addresses import list_of_models as list_of_models
    from agent.model.addresses import plain_address as plain_address
    from agent.model.builtin_providers import PROVIDERS as PROVIDERS
    from agent.model.catalog import ModelInfo as ModelInfo
    from agent.model.demo import TOUR_REQUEST as TOUR_REQUEST
    from agent.model.detect import DetectedServer as DetectedServer
    from agent.model.detect import detect as detect
    from agent.model.dialect_book import dialect_name as dialect_name
    from agent.model.dialect_book import forget as forget
    from agent.model.dialect_book import learned_of as learned_of
    from agent.model.key_check import KeyCheck as KeyCheck
    from agent.model.key_check import KeyProvider as KeyProvider
    from agent.model.key_check import ServerCheck as ServerCheck
    from agent.model.key_check import check_key as check_key
    from agent.model.key_check import check_server as check_server
    from agent.model.key_check import key_providers as key_providers
    from agent.model.local.pull import Listener as Listener
    from agent.model.local.pull import Progress as Progress
    from agent.model.local.pull import SourceName as SourceName
    from agent.model.local.pull import pull as pull
    from agent.model.local.server import MISSING as MISSING
    from agent.model.local.sources import StoppedError as StoppedError
    from agent.model.local.weights import CATALOGUE as CATALOGUE
    from agent.model.local.weights import PROVENANCE as PROVENANCE
    from agent.model.local.weights import SMALL as SMALL
    from agent.model.local.weights import STANDARD as STANDARD
    from agent.model.local.weights import Weights as Weights
    from agent.model.local.weights import installed as installed
    from agent.model.local.weights import model_file as model_file
    from agent.model.local.weights import wanted as wanted
    from agent.model.model_choices import ModelChoice as ModelChoice
    from agent.model.model_choices import choices as choices
    from agent.model.model_choices import merged as merged
    from agent.model.model_choices import ports as ports
    from agent.model.model_choices import served as served
    from agent.model.providers import MODEL as MODEL
    from agent.model.providers import NoModelError as NoModelError
    from agent.model.providers import Target as Target
    from agent.model.providers import UnusableModelError as UnusableModelError
    from agent.model.providers import address_of as address_of
    from agent.model.providers import checked_url as checked_url
    from agent.model.providers import reach as reach
    from agent.model.providers import resolve as resolve
    from agent.model.providers import seller as seller

__getattr__ = exports(
    __name__,
    {
        "agent.model.addresses": "is_loopback list_of_models plain_address",
        "agent.model.builtin_providers": "PROVIDERS",
        "agent.model.catalog": "ModelInfo",
        "agent.model.model_choices": "ModelChoice choices merged ports served",
        "agent.model.demo": "TOUR_REQUEST",
        "agent.model.detect": "DetectedServer detect",
        "agent.model.dialect_book": "dialect_name forget learned_of",
        "agent.model.key_check": "KeyCheck KeyProvider ServerCheck check_key check_server key_providers",
        "agent.model.local.sources": "StoppedError",
        "agent.model.local.pull": "Listener Progress SourceName pull",
        "agent.model.local.server": "MISSING",
        "agent.model.local.weights": "CATALOGUE PROVENANCE SMALL STANDARD Weights installed model_file "
        "wanted",
        "agent.model.providers": "MODEL NoModelError Target UnusableModelError address_of checked_url reach "
        "resolve seller",
    },
)
