"""Secrets of credentials, and the CSRF tokens that follow from them."""

import hmac
from hashlib import sha256
from secrets import token_urlsafe

SECRET_PREFIX = "tdg_"  # noqa: S105 - it is no secret itself
"""Marks a secret of Tidegate, so that scanners of repositories recognise it."""

BYTES = 32


def new_secret() -> str:
    """256 random bits: a digest without salt is enough to store them."""
    return SECRET_PREFIX + token_urlsafe(BYTES)


def digest_of(secret: str) -> bytes:
    return sha256(secret.encode(errors="surrogateescape")).digest()


def csrf_token(secret: str) -> str:
    """The token for the forms of a session: another origin cannot read it, and it does not reveal the secret."""
    return hmac.new(secret.encode(), b"csrf", sha256).hexdigest()


def is_csrf_token(secret: str, given: str) -> bool:
    return hmac.compare_digest(csrf_token(secret).encode(), given.encode())
