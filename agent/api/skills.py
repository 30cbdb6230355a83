"""Skills: which there are, what they say, and what a scan finds in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.integrations.plugins.skill_catalog import catalog_for as catalog_for
    from agent.integrations.plugins.skill_catalog import skill_catalog as skill_catalog
    from agent.knowledge.skills.catalog import SkillCatalog as SkillCatalog
    from agent.knowledge.skills.catalog import missing_variables as missing_variables
    from agent.knowledge.skills.discover import BrokenSkill as BrokenSkill
    from agent.knowledge.skills.discover import SkillIndex as SkillIndex
    from agent.knowledge.skills.discover import SkillOff as SkillOff
    from agent.knowledge.skills.discover import SkillSet as SkillSet
    from agent.knowledge.skills.frontmatter import SkillFormatError as SkillFormatError
    from agent.knowledge.skills.frontmatter import validate as validate
    from agent.knowledge.skills.project import read_project_skills as read_project_skills
    from agent.knowledge.skills.project import trust_skills as trust_skills
    from agent.knowledge.skills.scanner import SkillFinding as SkillFinding
    from agent.knowledge.skills.scanner import SkillScan as SkillScan
    from agent.knowledge.skills.scanner import scan_folder as scan_folder
    from agent.knowledge.skills.skill import Skill as Skill
    from agent.knowledge.skills.skill import linked_files as linked_files
    from agent.knowledge.skills.skill import read_text as read_text
    from agent.knowledge.skills.skill import skill_file as skill_file
    from agent.knowledge.skills.trust import decide as decide
    from agent.knowledge.skills.trust import trust_of as trust_of

__getattr__ = exports(
    __name__,
    {
        "agent.knowledge.skills.catalog": "SkillCatalog missing_variables",
        "agent.integrations.plugins.skill_catalog": "catalog_for skill_catalog",
        "agent.knowledge.skills.discover": "BrokenSkill SkillIndex SkillOff SkillSet",
        "agent.knowledge.skills.frontmatter": "SkillFormatError validate",
        "agent.knowledge.skills.project": "read_project_skills trust_skills",
        "agent.knowledge.skills.scanner": "SkillFinding SkillScan scan_folder",
        "agent.knowledge.skills.skill": "Skill linked_files read_text skill_file",
        "agent.knowledge.skills.trust": "decide trust_of",
    },
)
