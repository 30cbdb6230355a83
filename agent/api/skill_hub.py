"""Skills from elsewhere: searched, examined, installed, updated, watched, handed on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.knowledge.skills.hub.installing import Removed as Removed
    from agent.knowledge.skills.hub.installing import require_allowed as require_allowed
    from agent.knowledge.skills.hub.lock import LockedSkill as LockedSkill
    from agent.knowledge.skills.hub.opening import SkillReference as SkillReference
    from agent.knowledge.skills.hub.problems import HubError as HubError
    from agent.knowledge.skills.hub.problems import HubRefusedError as HubRefusedError
    from agent.knowledge.skills.hub.publishing import PublishedSkill as PublishedSkill
    from agent.knowledge.skills.hub.publishing import check_publishable as check_publishable
    from agent.knowledge.skills.hub.publishing import index_text as index_text
    from agent.knowledge.skills.hub.publishing import publish_archive as publish_archive
    from agent.knowledge.skills.hub.publishing import publish_folder as publish_folder
    from agent.knowledge.skills.hub.publishing import push as push
    from agent.knowledge.skills.hub.publishing import repository_at as repository_at
    from agent.knowledge.skills.hub.publishing import skill_at as skill_at
    from agent.knowledge.skills.hub.quarantine import Candidate as Candidate
    from agent.knowledge.skills.hub.service import AuditedSkill as AuditedSkill
    from agent.knowledge.skills.hub.service import SearchResult as SearchResult
    from agent.knowledge.skills.hub.service import SkillHub as SkillHub
    from agent.knowledge.skills.hub.service import UpdatePlan as UpdatePlan
    from agent.knowledge.skills.hub.service import open_hub as open_hub
    from agent.knowledge.skills.hub.snapshot import SnapshotRow as SnapshotRow
    from agent.knowledge.skills.hub.snapshot import parse_snapshot as parse_snapshot
    from agent.knowledge.skills.hub.snapshot import render_snapshot as render_snapshot
    from agent.knowledge.skills.hub.source import SkillOffer as SkillOffer
    from agent.knowledge.skills.hub.updating import Side as Side
    from agent.knowledge.skills.scanner import SkillFinding as SkillFinding
    from agent.knowledge.skills.scanner import SkillScan as SkillScan
    from agent.knowledge.skills.trust import trust_of as trust_of

__getattr__ = exports(
    __name__,
    {
        "agent.knowledge.skills.hub.installing": "Removed require_allowed",
        "agent.knowledge.skills.hub.lock": "LockedSkill",
        "agent.knowledge.skills.hub.opening": "SkillReference",
        "agent.knowledge.skills.hub.problems": "HubError HubRefusedError",
        "agent.knowledge.skills.hub.publishing": (
            "PublishedSkill check_publishable index_text publish_archive publish_folder push "
            "repository_at skill_at"
        ),
        "agent.knowledge.skills.hub.quarantine": "Candidate",
        "agent.knowledge.skills.hub.service": "AuditedSkill SearchResult SkillHub UpdatePlan open_hub",
        "agent.knowledge.skills.hub.snapshot": "SnapshotRow parse_snapshot render_snapshot",
        "agent.knowledge.skills.hub.source": "SkillOffer",
        "agent.knowledge.skills.hub.updating": "Side",
        "agent.knowledge.skills.scanner": "SkillFinding SkillScan",
        "agent.knowledge.skills.trust": "trust_of",
    },
)
