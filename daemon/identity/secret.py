"""Secrets of credentials, and the CSRF tokens that follow from them."""

import hmac
from hashlib import sha256
from secrets import token_bytes, token_urlsafe

SECRET_PREFIX = "tdg_"  # noqa: S105 - it is no secret itself
"""Marks a secret of Tidegate, so that scanners of repositories recognise it."""

BYTES = 32


def new_secret() -> str:
    """256 random bits: a digest without salt is enough to store them."""
    return SECRET_PREFIX + token_urlsafe(BYTES)


def digest_of(secret: str) -> bytes:
    return sha256(secret.encode(errors="surrogateescape")).digest()


def csrf_token(secret: str) -> str:
    """A token for the forms of a session: another origin cannot read it, and it does not reveal the secret.

    Each one is masked by a pad of its own, as in Django: pages are compressed, and the lengths of compressed answers that also
    repeat a text of an attacker would tell a token that stays the same (BREACH).
    """
    pad = token_bytes(BYTES)
    return (pad + _xor(pad, _csrf(secret))).hex()


def is_csrf_token(secret: str, given: str) -> bool:
    try:
        token = bytes.fromhex(given)
    except ValueError:
        return False
    return len(token) == 2 * BYTES and hmac.compare_digest(_xor(token[:BYTES], token[BYTES:]), _csrf(secret))


def _csrf(secret: str) -> bytes:
    return hmac.new(secret.encode(), b"csrf", sha256).digest()


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
