"""Settings. Every one that differs between machines comes from the environment (see docs/operating.md)."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from csp.constants import NONE, SELF

from opsledger.lib.database_url import FOLLOW_KEYS, ROW_BY_ROW, database
from opsledger.lib.env import Env
from opsledger.lib.mail_url import mail_settings
from opsledger.lib.secret_file import read_or_make

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = BASE_DIR / "var"
env = Env()

# Which kind of process this is decides its database timeouts (docs/operating.md, "Timeouts").
PROCESS_KIND = env.choice("PROCESS_KIND", "command", ("web", "worker", "beat", "command"))
PUBLIC_URL = env.url("PUBLIC_URL", "http://localhost:8000", ("http", "https"), bare=True)
HTTPS = urlsplit(PUBLIC_URL).scheme == "https"
ENVIRONMENT_NAME = env.text("ENVIRONMENT_NAME", "Local")

DEBUG = False
SECRET_KEY = env.text("SECRET_KEY") or read_or_make(VAR_DIR / "secret_key")
ALLOWED_HOSTS = env.hosts(
    "ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]", urlsplit(PUBLIC_URL).hostname or "localhost"]
)
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL.rstrip("/")] if HTTPS else []
# How many proxies of ours stand in front; 0 means that X-Forwarded-* headers are not believed at all.
TRUSTED_PROXY_COUNT = env.number("TRUSTED_PROXY_COUNT", 0, least=0, most=5)
if TRUSTED_PROXY_COUNT and HTTPS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = env.number("HSTS_SECONDS", 31_536_000 if HTTPS else 0, least=0, most=63_072_000)
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz"]
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_AGE = 8 * 3600
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_ENGINE = "django.contrib.sessions.backends.db"
CSRF_USE_SESSIONS = False
CSRF_FAILURE_VIEW = "opsledger.console.errors.csrf_failure"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_htmx",
    "template_partials",
    "csp",
    "axes",
    "opsledger.accounts",
    "opsledger.journal",
    "opsledger.ledger",
    "opsledger.engine",
    "opsledger.api",
    "opsledger.console",
    "opsledger.demo",
]

MIDDLEWARE = [
    "opsledger.lib.request_log.RequestLogMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "opsledger.console.middleware.LanguageMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "opsledger.console.middleware.ConsoleMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "opsledger.urls"
WSGI_APPLICATION = "opsledger.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": [
                "django.templatetags.i18n",
                "opsledger.console.templatetags.texts",
                "opsledger.console.templatetags.ops",
                "template_partials.templatetags.partials",
            ],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "opsledger.console.context.shell",
            ],
        },
    }
]

# Statement, lock and idle limits per kind of process, in milliseconds.
DATABASE_LIMITS_MS = {
    "web": {
        "statement_timeout": 15_000,
        "lock_timeout": 5_000,
        "idle_in_transaction_session_timeout": 15_000,
    },
    "worker": {
        "statement_timeout": 30_000,
        "lock_timeout": 10_000,
        "idle_in_transaction_session_timeout": 30_000,
    },
    "beat": {
        "statement_timeout": 10_000,
        "lock_timeout": 5_000,
        "idle_in_transaction_session_timeout": 10_000,
    },
    "command": {
        "statement_timeout": 0,
        "lock_timeout": 10_000,
        "idle_in_transaction_session_timeout": 600_000,
    },
}[PROCESS_KIND]
DATABASE_URL = env.url("DATABASE_URL", "postgresql://localhost/opsledger", ("postgres", "postgresql"))
DATABASE_OWNER_URL = env.url("DATABASE_OWNER_URL", DATABASE_URL, ("postgres", "postgresql"))
PLANNER = ROW_BY_ROW if PROCESS_KIND == "worker" else FOLLOW_KEYS
DATABASES: dict[str, Any] = {
    # the application's role: SELECT and INSERT only on the journal
    "default": database(
        DATABASE_URL, limits_ms=DATABASE_LIMITS_MS, keep=PROCESS_KIND == "web", planner=PLANNER
    ),
    # the role that owns the tables: migrations only
    "owner": database(DATABASE_OWNER_URL, limits_ms={"lock_timeout": 5_000}, keep=False),
}
DATABASE_ROUTERS = ["opsledger.lib.database_url.OneSchema"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "accounts.Person"
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
PASSWORD_HASHERS = ["opsledger.accounts.hashing.FreeHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/accounts/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/accounts/login/"
# Sign-in is throttled per name and address: ten wrong passwords, then fifteen minutes.
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = 0.25
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_USERNAME_FORM_FIELD = (
    "username"  # the form's field; by default axes looks for one named like USERNAME_FIELD
)
AXES_LOCKOUT_CALLABLE = "opsledger.console.errors.locked_out"
AXES_RESET_ON_SUCCESS = True
# The page says when sign-in works again, and a further try does not move that moment.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_CLIENT_IP_CALLABLE = "opsledger.lib.client_address.client_address"
AXES_VERBOSE = False
AXES_SENSITIVE_PARAMETERS = ["password"]

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATIC_ROOT = VAR_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
WHITENOISE_MAX_AGE = 3600
# Served from the collected files; without them (tests, a first look) from where they lie.
WHITENOISE_USE_FINDERS = not (STATIC_ROOT / "staticfiles.json").exists()
if WHITENOISE_USE_FINDERS:
    STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # WhiteNoise warns of a folder that is missing
    STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}

# One limit for every body that comes in, named in the 413 (docs/api.md). Django's own limit stays above it.
INTAKE_BODY_BYTES_MAX = env.number("INTAKE_BODY_BYTES_MAX", 1_048_576, least=1_024, most=67_108_864)
# A list that somebody pastes into a page may be longer than a body (docs/triage.md).
DATA_UPLOAD_MAX_MEMORY_SIZE = max(2 * INTAKE_BODY_BYTES_MAX, 4_000_000) + 1_048_576
DATA_UPLOAD_MAX_NUMBER_FILES = 4
FILE_UPLOAD_HANDLERS = ["opsledger.console.uploads.KeptSmall"]

REDIS_URL = env.url("REDIS_URL", "redis://localhost:6379/0", ("redis", "rediss", "unix"))
# How many requests one worker process may have in flight at once; also the size of a claim.
SEND_THREADS = env.number("SEND_THREADS", 16, least=1, most=128)
# Destinations on private addresses that may be called, as CIDR ranges (docs/operating.md, "Addresses").
ALLOWED_PRIVATE_NETWORKS = env.networks("ALLOWED_PRIVATE_NETWORKS")
HTTPS_PROXY_URL = env.url("DESTINATION_PROXY_URL", "", ("http",), bare=True)
# Mail to people: without EMAIL_URL none is sent, and the pages say so (docs/operating.md, "Mail").
MAIL = mail_settings(env.text("EMAIL_URL"), env.text("MAIL_FROM"))
MAIL_ON = MAIL is not None
if MAIL is not None:
    EMAIL_HOST, EMAIL_PORT, EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = (
        MAIL.host,
        MAIL.port,
        MAIL.user,
        MAIL.password,
    )
    EMAIL_USE_TLS, EMAIL_USE_SSL, DEFAULT_FROM_EMAIL = MAIL.starttls, MAIL.ssl, MAIL.sender
    EMAIL_TIMEOUT = 10
METRICS_TOKEN = env.text("METRICS_TOKEN")
# From where figures may be read without it. Nothing of both: from this machine.
METRICS_ALLOWED_NETWORKS = env.networks("METRICS_ALLOWED_NETWORKS")

SILENCED_SYSTEM_CHECKS: list[str] = []
if not HTTPS:
    # Plain HTTP is for one machine only; PUBLIC_URL=https://… turns all of these on.
    SILENCED_SYSTEM_CHECKS += ["security.W004", "security.W008", "security.W012", "security.W016"]

# What nothing was done with, and what was told and read, goes away by itself (ledger/actions/removals.py).
KEEP_UNUSED_SELECTIONS_DAYS = env.number("KEEP_UNUSED_SELECTIONS_DAYS", 30, least=1, most=3_650)
KEEP_EARLY_REPORTS_DAYS = env.number("KEEP_EARLY_REPORTS_DAYS", 90, least=1, most=3_650)
KEEP_READ_NOTICES_DAYS = env.number("KEEP_READ_NOTICES_DAYS", 90, least=1, most=3_650)

LOG_LEVEL = env.choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR"))
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"context": {"()": "opsledger.lib.request_log.LogContextFilter"}},
    "formatters": {"json": {"()": "opsledger.lib.request_log.JsonFormatter"}},
    "handlers": {
        "out": {"class": "logging.StreamHandler", "formatter": "json", "filters": ["context"]},
        "nowhere": {"class": "logging.NullHandler"},
    },
    "root": {"handlers": ["out"], "level": LOG_LEVEL},
    "loggers": {
        "django.server": {"handlers": ["out"], "propagate": False},
        "httpcore": {"level": "WARNING"},
        # a bell rings every second: its coming and going is not news
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "axes": {"level": "WARNING"},
        # their lines hold addresses with secrets in them
        "apprise": {"handlers": ["nowhere"], "propagate": False},
        "urllib3": {"level": "ERROR"},
        "requests": {"level": "ERROR"},
    },
}
