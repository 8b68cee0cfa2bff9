"""Keys and passwords kept out of what is written down: settings, command lines, addresses."""

import re
from typing import Any
from urllib.parse import urlsplit

HIDDEN = "(not kept)"
_NAME = re.compile(r"(^|_)(api_?key|key|token|secret|password|passwd|credentials?|auth|webhook)($|_)", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=://)[^/@\s\"']*@")
_QUERY = re.compile(r"(?<=[?&])([\w.-]*(?:key|token|secret|passw|sig|auth)[\w.-]*)=[^&#\s\"']*", re.IGNORECASE)
_ENV_WORD = re.compile(r"(?P<start>(?:.*=)?\s*serve\.env\.(?P<name>[\w-]+)\s*=).*", re.DOTALL)
_KEY_OPTION = "--api-key"
_SET_WORD = re.compile(r"(?P<start>(?:.*=)?\s*alerts\.(?:webhook|command)\s*=).*", re.DOTALL)


def endpoint_problem(endpoint: str) -> str | None:
    """Why an address cannot be an API's; without the address in it, which may hold a password."""
    if "@" in endpoint:
        return "holds a user name or password, which would be kept in files; give a key in the environment variable VLLM_API_KEY instead"
    if "?" in endpoint or "#" in endpoint:
        return "holds a query or fragment; it ends in /v1, and a key is given in the environment variable VLLM_API_KEY"
    try:
        parts = urlsplit(endpoint)
        port, host = parts.port, parts.hostname
    except ValueError:
        return "is no address; e.g. http://127.0.0.1:8000/v1"
    if parts.scheme not in ("http", "https") or not host or port == 0 or not parts.path.rstrip("/").endswith("/v1"):
        return f"{endpoint!r} must be http(s) and end in /v1, e.g. http://127.0.0.1:8000/v1"
    return None


def webhook_problem(address: str) -> str | None:
    """Why nothing can be posted to an address; without the address, which is a secret as a whole."""
    try:
        parts = urlsplit(address)
        port, host = parts.port, parts.hostname
    except ValueError:
        return "is no address; e.g. https://127.0.0.1/hook"
    if parts.scheme not in ("http", "https") or not host or port == 0 or not address.isascii() or re.search(r"[\s\x00-\x1f\x7f]", address):
        return "is no address that can be posted to: it begins with http:// or https:// and a host, and has no blanks"
    if "@" in parts.netloc:
        return "holds a user name or password, which many services log; use one whose path is the secret"
    return None


def without_secrets(text: str) -> str:
    """A text without the passwords and keys of the addresses in it."""
    return _QUERY.sub(rf"\1={HIDDEN}", _USER_INFO.sub(f"{HIDDEN}@", text))


def secret_of(key: str, value: Any) -> str | None:
    """What of a setting ``section.key`` with this value is a key or password: its name; None where nothing is."""
    if isinstance(value, dict):
        return next(filter(None, (secret_of(f"{key}.{inner}", one) for inner, one in value.items())), None)
    parts = value if isinstance(value, list) else [value]
    if any(isinstance(part, str) and _KEY_OPTION in part for part in parts):
        return f"{_KEY_OPTION} in {key}"
    return key if _NAME.search(key.rpartition(".")[2]) and value not in ("", None) else None


def words(command: "list[str] | tuple[str, ...]") -> list[str]:
    """A command line, without the keys that options and ``--set serve.env.NAME=...`` give in it."""
    kept: list[str] = []
    for word in command:
        found = _ENV_WORD.fullmatch(word)
        if kept and kept[-1] == _KEY_OPTION:
            kept.append(HIDDEN)
        elif word.startswith(_KEY_OPTION + "="):
            kept.append(f"{_KEY_OPTION}={HIDDEN}")
        elif found and _NAME.search(found["name"]):
            kept.append(found["start"] + HIDDEN)
        elif alert := _SET_WORD.fullmatch(word):
            kept.append(alert["start"] + HIDDEN)
        elif _KEY_OPTION in word and word != _KEY_OPTION:  # --set 'serve.extra_args=["--api-key", ...]'
            kept.append(word.partition("=")[0] + f"={HIDDEN}")
        else:
            kept.append(without_secrets(word))
    return kept


def settings(resolved: dict[str, Any]) -> dict[str, Any]:
    """A run's resolved settings, without the keys that ``serve.env`` and ``serve.extra_args`` give the server, and what tells of alerts."""
    serve = dict(resolved.get("serve") or {})
    serve["env"] = {name: HIDDEN if _NAME.search(name) else value for name, value in (serve.get("env") or {}).items()}
    serve["extra_args"] = words(serve.get("extra_args") or [])
    alerts = dict(resolved.get("alerts") or {})
    alerts.update({name: HIDDEN for name in ("webhook", "command") if alerts.get(name)})
    return {**resolved, "serve": serve, **({"alerts": alerts} if "alerts" in resolved else {})}
