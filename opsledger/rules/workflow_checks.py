"""What must hold inside a workflow’s definition, beyond the types of its fields. Each check belongs to one class."""

from __future__ import annotations

from opsledger.rules.building import Problems, checks
from opsledger.rules.definition_types import FieldKind, ParamDefinition, StepDefinition, WorkflowDefinition
from opsledger.rules.field_checks import (
    check_distinct,
    check_name,
    check_slug,
    check_template,
    safe_placeholders,
)
from opsledger.rules.record import Performer
from opsledger.rules.states import HoldReason

ESCALATE_SECONDS_MIN, ESCALATE_SECONDS_MAX = 60, 30 * 86_400


@checks(ParamDefinition)
def check_param(param: ParamDefinition, path: str, problems: Problems) -> None:
    check_name(param.name, f"{path}.name", problems)
    if param.sensitive and param.kind is FieldKind.FREE:
        problems.add(f"{path}.kind", "says free, but the field is sensitive; leave one of them out")


@checks(StepDefinition)
def check_step(step: StepDefinition, path: str, problems: Problems) -> None:
    check_name(step.name, f"{path}.name", problems)
    if step.performer is Performer.AUTOMATION and not 0 < step.lease_seconds <= step.longest_seconds:
        problems.add(f"{path}.lease_seconds", "must be above 0 and not above longest_seconds")


@checks(WorkflowDefinition)
def check_workflow(workflow: WorkflowDefinition, path: str, problems: Problems) -> None:
    check_slug(workflow.slug, path, problems)
    if not workflow.steps:
        problems.add(f"{path}.steps", "is empty: name at least one step")
    for kind in ("params", "content", "steps"):
        check_distinct([item.name for item in getattr(workflow, kind)], f"{path}.{kind}", problems)
    _check_due(workflow, f"{path}.due_seconds", problems)
    _check_title(workflow, f"{path}.title", problems)
    if any(step.needs_approval for step in workflow.steps) and not workflow.content:
        problems.add(
            f"{path}.content", "is missing: a step needs approval, but there is no content to approve"
        )
    for index, param in enumerate(workflow.params):
        if param.kind is not None:
            problems.add(f"{path}.params[{index}].kind", "is for fields of content; params may be sensitive")
    if workflow.approval_seconds is not None and workflow.approval_seconds < 1:
        problems.add(
            f"{path}.approval_seconds", "must be 1 or more: an approval has to be good for something"
        )
    after = workflow.escalate_after_seconds
    if after is not None and not ESCALATE_SECONDS_MIN <= after <= ESCALATE_SECONDS_MAX:
        span = f"{ESCALATE_SECONDS_MIN} to {ESCALATE_SECONDS_MAX} (30 days)"
        problems.add(
            f"{path}.escalate_after_seconds", f"must be from {span}: whoever is reminded needs time to act"
        )
    for name in ("owner", "if_nobody"):
        if not getattr(workflow, name).strip():
            problems.add(f"{path}.{name}", "must not be empty")


def _check_due(workflow: WorkflowDefinition, path: str, problems: Problems) -> None:
    if "default" not in workflow.due_seconds:
        problems.add(f"{path}.default", "is missing: it stands for every reason that is not named")
    known = {reason.value for reason in HoldReason} | {"default"}
    for reason in workflow.due_seconds:
        if reason not in known:
            problems.add(f"{path}.{reason}", f"is not a reason; known are {', '.join(sorted(known))}")


def _check_title(workflow: WorkflowDefinition, path: str, problems: Problems) -> None:
    check_template(workflow.title, {"params"}, path, problems)
    params = {param.name: param for param in workflow.params}
    for placeholder in safe_placeholders(workflow.title):
        param = params.get(placeholder.path[-1])
        if placeholder.path[0] != "params" or param is None:
            problems.add(path, f"names {placeholder.name}, which is not a param of this workflow")
        elif param.sensitive:
            problems.add(
                path, f"shows {placeholder.name}, which is sensitive; the title is read by everybody"
            )
