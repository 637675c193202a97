"""Celery's settings. Deadlines nest: send deadline < lease < visibility timeout; messages carry no ids and expire soon."""

from django.conf import settings

broker_url = settings.REDIS_URL
broker_connection_retry_on_startup = True
broker_connection_max_retries = None  # a worker without a broker waits; it does not give up
worker_enable_prefetch_count_reduction = (
    False  # bells are not work: after a reconnect as many are heard as before
)
# A bell that can't be rung must not hold a web request: one short try (the sweep finds the work anyway).
broker_transport_options = {
    "visibility_timeout": 3600,
    "socket_connect_timeout": 1.0,
    "socket_timeout": 5.0,
    "retry_policy": {"timeout": 1.0},
    "max_retries": 0,
}
task_publish_retry = False
result_backend = None
task_ignore_result = True
task_acks_late = False  # a lost bell is rung again; a redelivered one would only find the same rows
task_serializer = "json"
accept_content = ["json"]
task_default_queue = "opsledger"
worker_prefetch_multiplier = 1
worker_hijack_root_logger = False
worker_send_task_events = False
worker_enable_remote_control = False
worker_max_tasks_per_child = 5000
worker_cancel_long_running_tasks_on_connection_loss = False
broker_channel_error_retry = True
timezone = "UTC"

BELLS = {
    "dispatch": 1.0,  # seconds between two bells; each expires before the third
    "reconcile": 2.0,
    "sweep": 5.0,
    "replays": 1.0,
    "bulk": 2.0,
    "notices": 5.0,
    "canary": 10.0,
    "removals": 600.0,
}
beat_schedule = {
    name: {"task": f"opsledger.{name}", "schedule": seconds, "options": {"expires": 2 * seconds}}
    for name, seconds in BELLS.items()
}
