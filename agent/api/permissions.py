"""The gate as a person sees it: modes, rules, grants, audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.core.event_data import VerdictPart as VerdictPart
    from agent.core.modes import MODES as MODES
    from agent.core.modes import NAMES as NAMES
    from agent.core.modes import SUMMARIES as SUMMARIES
    from agent.core.modes import Mode as Mode
    from agent.core.modes import ModeName as ModeName
    from agent.core.modes import canonical as canonical
    from agent.core.modes import following as following
    from agent.safety.audit.check import AuditReport as AuditReport
    from agent.safety.audit.check import verify as verify
    from agent.safety.audit.log import AuditError as AuditError
    from agent.safety.audit.record import AuditEntry as AuditEntry
    from agent.safety.audit.record import AuditTail as AuditTail
    from agent.safety.audit.record import asker as asker
    from agent.safety.audit.record import newest as newest
    from agent.safety.gate import Gate as Gate
    from agent.safety.grants import Grant as Grant
    from agent.safety.permissions.editing import plan_rule as plan_rule
    from agent.safety.permissions.file import SURFACES as SURFACES
    from agent.safety.permissions.file import PermissionFile as PermissionFile
    from agent.safety.permissions.file import parse_file as parse_file
    from agent.safety.permissions.policy import PROJECT as PROJECT
    from agent.safety.permissions.policy import Permissions as Permissions
    from agent.safety.permissions.rules import PermissionRule as PermissionRule
    from agent.safety.permissions.subjects import Setting as Setting
    from agent.safety.programs.table import program_mistakes as program_mistakes
    from agent.safety.sandbox.coverage import NO_COVERAGE as NO_COVERAGE
    from agent.safety.sandbox.coverage import coverage_of as coverage_of
    from agent.safety.sandbox.opening import try_filter as try_filter
    from agent.safety.sandbox.probe import probe as probe
    from agent.safety.undo import NO_UNDO as NO_UNDO
    from agent.safety.verdict import Verdict as Verdict

__getattr__ = exports(
    __name__,
    {
        "agent.safety.audit.log": "AuditError",
        "agent.safety.audit.check": "AuditReport verify",
        "agent.safety.audit.record": "AuditEntry AuditTail asker newest",
        "agent.safety.gate": "Gate",
        "agent.safety.grants": "Grant",
        "agent.safety.permissions.editing": "plan_rule",
        "agent.safety.permissions.file": "PermissionFile SURFACES parse_file",
        "agent.core.modes": "Mode ModeName MODES NAMES SUMMARIES canonical following",
        "agent.safety.permissions.policy": "PROJECT Permissions",
        "agent.safety.permissions.rules": "PermissionRule",
        "agent.safety.permissions.subjects": "Setting",
        "agent.safety.programs.table": "program_mistakes",
        "agent.safety.sandbox.coverage": "NO_COVERAGE coverage_of",
        "agent.safety.sandbox.opening": "try_filter",
        "agent.safety.sandbox.probe": "probe",
        "agent.safety.undo": "NO_UNDO",
        "agent.safety.verdict": "Verdict",
        "agent.core.event_data": "VerdictPart",
    },
)
