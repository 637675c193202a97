"""Delivery profiles: how well-known senders sign, name and repeat their deliveries, with where that is documented.

A source names one by `delivery = "stripe"`; what it writes itself stands above what the profile says.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from opsledger.rules.definition_types import (
    Encoding,
    SecretForm,
    SignatureDefinition,
    SourceDefinition,
)


@dataclass(frozen=True, slots=True)
class DeliveryProfile:
    """Names of fields as in SourceDefinition, which they fill in."""

    signature: SignatureDefinition
    event_id: str
    topic: str = ""
    occurred_at: str = ""
    content_types: tuple[str, ...] = ()
    answer_while_open: int = 200
    answer_done: int = 200
    documented: str = ""
    note: str = ""


PROFILES = {
    "standard_webhooks": DeliveryProfile(
        signature=SignatureDefinition(
            header="webhook-signature",
            scheme="v1",
            scheme_separator=",",
            entry_separator=" ",
            encoding=Encoding.BASE64,
            secret_form=SecretForm.BASE64,
            timestamp_header="webhook-timestamp",
            id_header="webhook-id",
            tolerance_seconds=300,
            signed="{id}.{timestamp}.{body}",
        ),
        event_id="header:webhook-id",
        topic="body:type",
        occurred_at="body:timestamp",
        documented="https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md",
        note="The id is the same on every retry; the timestamp is that of the attempt.",
    ),
    "stripe": DeliveryProfile(
        signature=SignatureDefinition(
            header="Stripe-Signature",
            scheme="v1",
            timestamp_key="t",
            tolerance_seconds=300,
            signed="{timestamp}.{body}",
        ),
        event_id="body:id",
        topic="body:type",
        occurred_at="body:created",
        documented="https://docs.stripe.com/webhooks",
        note="No order is promised; two events may tell of one change.",
    ),
    "shopify": DeliveryProfile(
        signature=SignatureDefinition(header="X-Shopify-Hmac-Sha256", encoding=Encoding.BASE64),
        event_id="header:X-Shopify-Webhook-Id",
        topic="header:X-Shopify-Topic",
        occurred_at="header:X-Shopify-Triggered-At",
        documented="https://shopify.dev/docs/apps/build/webhooks/subscribe/https",
        note="Only the body is signed. One action in the shop may raise several deliveries with one event id.",
    ),
    "shopify_flow": DeliveryProfile(
        signature=SignatureDefinition(header="X-Shopify-Hmac-Sha256", encoding=Encoding.BASE64),
        event_id="body:action_run_id",
        answer_while_open=202,
        documented="https://shopify.dev/docs/apps/build/flow/actions/endpoints",
        note="202 means accepted, and the action is sent again until it hears 200.",
    ),
    "github": DeliveryProfile(
        signature=SignatureDefinition(header="X-Hub-Signature-256", scheme="sha256"),
        event_id="header:X-GitHub-Delivery",
        topic="header:X-GitHub-Event",
        documented="https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries",
        note="Not sent again by itself; only the body is signed.",
    ),
    "slack": DeliveryProfile(
        signature=SignatureDefinition(
            header="X-Slack-Signature",
            scheme="v0",
            timestamp_header="X-Slack-Request-Timestamp",
            tolerance_seconds=300,
            signed="v0:{timestamp}:{body}",
        ),
        event_id="body:event_id",
        topic="body:event.type",
        occurred_at="body:event_time",
        documented="https://docs.slack.dev/authentication/verifying-requests-from-slack",
    ),
}


def completed(source: SourceDefinition) -> SourceDefinition:
    """The source with what it leaves empty taken from its delivery profile. KeyError when there is no such profile."""
    if not source.delivery:
        return replace(
            source, answer_while_open=source.answer_while_open or 200, answer_done=source.answer_done or 200
        )
    profile = PROFILES[source.delivery]
    own = {field.name for field in fields(SourceDefinition)}
    filled = {
        field.name: getattr(profile, field.name)
        for field in fields(DeliveryProfile)
        if field.name in own and not getattr(source, field.name)
    }
    return replace(source, **filled)
