"""Skills: which there are, what they say, and what a scan finds in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.plugins.skill_catalog import catalog_for as catalog_for
    from agent.plugins.skill_catalog import skill_catalog as skill_catalog
    from agent.skills.catalog import SkillCatalog as SkillCatalog
    from agent.skills.catalog import missing_variables as missing_variables
    from agent.skills.discover import BrokenSkill as BrokenSkill
    from agent.skills.discover import SkillIndex as SkillIndex
    from agent.skills.discover import SkillOff as SkillOff
    from agent.skills.discover import SkillSet as SkillSet
    from agent.skills.frontmatter import SkillFormatError as SkillFormatError
    from agent.skills.frontmatter import validate as validate
    from agent.skills.project import read_project_skills as read_project_skills
    from agent.skills.project import trust_skills as trust_skills
    from agent.skills.scanner import SkillFinding as SkillFinding
    from agent.skills.scanner import SkillScan as SkillScan
    from agent.skills.scanner import scan_folder as scan_folder
    from agent.skills.skill import Skill as Skill
    from agent.skills.skill import linked_files as linked_files
    from agent.skills.skill import read_text as read_text
    from agent.skills.skill import skill_file as skill_file
    from agent.skills.trust import decide as decide
    from agent.skills.trust import trust_of as trust_of

__getattr__ = exports(
    __name__,
    {
        "agent.skills.catalog": "SkillCatalog missing_variables",
        "agent.plugins.skill_catalog": "catalog_for skill_catalog",
        "agent.skills.discover": "BrokenSkill SkillIndex SkillOff SkillSet",
        "agent.skills.frontmatter": "SkillFormatError validate",
        "agent.skills.project": "read_project_skills trust_skills",
        "agent.skills.scanner": "SkillFinding SkillScan scan_folder",
        "agent.skills.skill": "Skill linked_files read_text skill_file",
        "agent.skills.trust": "decide trust_of",
    },
)
