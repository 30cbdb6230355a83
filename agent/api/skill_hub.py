"""Skills from elsewhere: searched, examined, installed, updated, watched, handed on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.skills.hub.installing import Removed as Removed
    from agent.skills.hub.installing import require_allowed as require_allowed
    from agent.skills.hub.lock import LockedSkill as LockedSkill
    from agent.skills.hub.opening import SkillReference as SkillReference
    from agent.skills.hub.problems import HubError as HubError
    from agent.skills.hub.problems import HubRefusedError as HubRefusedError
    from agent.skills.hub.publishing import PublishedSkill as PublishedSkill
    from agent.skills.hub.publishing import check_publishable as check_publishable
    from agent.skills.hub.publishing import index_text as index_text
    from agent.skills.hub.publishing import publish_archive as publish_archive
    from agent.skills.hub.publishing import publish_folder as publish_folder
    from agent.skills.hub.publishing import push as push
    from agent.skills.hub.publishing import repository_at as repository_at
    from agent.skills.hub.publishing import skill_at as skill_at
    from agent.skills.hub.quarantine import Candidate as Candidate
    from agent.skills.hub.service import AuditedSkill as AuditedSkill
    from agent.skills.hub.service import SearchResult as SearchResult
    from agent.skills.hub.service import SkillHub as SkillHub
    from agent.skills.hub.service import UpdatePlan as UpdatePlan
    from agent.skills.hub.service import open_hub as open_hub
    from agent.skills.hub.snapshot import SnapshotRow as SnapshotRow
    from agent.skills.hub.snapshot import parse_snapshot as parse_snapshot
    from agent.skills.hub.snapshot import render_snapshot as render_snapshot
    from agent.skills.hub.source import SkillOffer as SkillOffer
    from agent.skills.hub.updating import Side as Side
    from agent.skills.scanner import SkillFinding as SkillFinding
    from agent.skills.scanner import SkillScan as SkillScan
    from agent.skills.trust import trust_of as trust_of

__getattr__ = exports(
    __name__,
    {
        "agent.skills.hub.installing": "Removed require_allowed",
        "agent.skills.hub.lock": "LockedSkill",
        "agent.skills.hub.opening": "SkillReference",
        "agent.skills.hub.problems": "HubError HubRefusedError",
        "agent.skills.hub.publishing": (
            "PublishedSkill check_publishable index_text publish_archive publish_folder push "
            "repository_at skill_at"
        ),
        "agent.skills.hub.quarantine": "Candidate",
        "agent.skills.hub.service": "AuditedSkill SearchResult SkillHub UpdatePlan open_hub",
        "agent.skills.hub.snapshot": "SnapshotRow parse_snapshot render_snapshot",
        "agent.skills.hub.source": "SkillOffer",
        "agent.skills.hub.updating": "Side",
        "agent.skills.scanner": "SkillFinding SkillScan",
        "agent.skills.trust": "trust_of",
    },
)
