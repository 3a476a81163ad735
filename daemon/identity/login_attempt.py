"""A login by OpenID Connect that has begun: what its browser keeps until the provider sends it back."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from secrets import token_urlsafe

import msgspec

BYTES = 32


class Attempt(msgspec.Struct, frozen=True):
    """`state` ties the answer of the provider to this browser, `nonce` the ID token, `verifier` the code (PKCE).

    `next` is the page that the browser wanted.
    """

    state: str
    nonce: str
    verifier: str
    next: str

    @property
    def challenge(self) -> str:
        """The challenge for the provider: the digest of the verifier, by S256 of RFC 7636."""
        return _text(sha256(self.verifier.encode()).digest())

    @property
    def digest(self) -> bytes:
        """The digest of the state, which is stored once the state was used."""
        return sha256(self.state.encode()).digest()

    def encode(self) -> str:
        """The value of a cookie."""
        return _text(msgspec.json.encode(self))


def begin(next_: str) -> Attempt:
    return Attempt(token_urlsafe(BYTES), token_urlsafe(BYTES), token_urlsafe(BYTES), next_)


def decode(text: str) -> Attempt | None:
    """None for a cookie that is none of this server."""
    try:
        return msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=Attempt)
    except ValueError:
        return None


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")
