"""The ID token of OpenID Connect: whether the provider made it, for this login, and what it says about the user."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from joserfc import jwt
from joserfc.errors import ExpiredTokenError, InvalidClaimError, JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet

from tidegate.daemon.identity.grants import RefusedLoginError

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by a key that only the provider has. `none`, and algorithms with a shared secret, are not among them."""

KEY_TYPES = ("RSA", "EC", "OKP")

EMAIL, VERIFIED = "email", "email_verified"
"""At some providers users enter any address; the second claim says whether it is theirs."""

LEEWAY_S = 60
"""The clocks of the provider and of this host may differ so much."""

_CLOCKS = f"the clocks of the provider and of this host differ by more than {LEEWAY_S} s: set them"
WHAT_TO_DO = {"iat": _CLOCKS, "exp": _CLOCKS, "nbf": _CLOCKS, "aud": "TIDEGATE_OIDC_CLIENT_ID is the name that it must be for"}
"""By the claim that is refused."""


class Expected(NamedTuple):
    """The claims that the token of a login must have."""

    issuer: str
    client_id: str
    nonce: str


def verified(token: str, keys: Sequence[Mapping[str, Any]], expected: Expected) -> Mapping[str, Any]:
    """The claims of a token that one of the keys signed. Raises RefusedLoginError for any other token."""
    try:
        claims = jwt.decode(token, KeySet(list(_imported(keys))), algorithms=list(ALGORITHMS)).claims
        _registry(expected).validate(claims)
    except (JoseError, ValueError) as error:
        raise RefusedLoginError(f"the ID token of the provider is refused: {_reason(error)}") from error
    _check_party(claims, expected.client_id)
    return claims


def _imported(keys: Sequence[Mapping[str, Any]]) -> Iterator[Key]:
    """A provider may publish keys for other uses, and of kinds and curves that this version does not know."""
    for key in keys:
        if key.get("kty") in KEY_TYPES and key.get("use", "sig") == "sig":
            with suppress(JoseError, ValueError, KeyError, TypeError):
                yield JWKRegistry.import_key(dict(key))


def _registry(expected: Expected) -> jwt.JWTClaimsRegistry:
    return jwt.JWTClaimsRegistry(
        leeway=LEEWAY_S,
        iss={"essential": True, "value": expected.issuer},
        aud={"essential": True, "value": expected.client_id},
        nonce={"essential": True, "value": expected.nonce},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
    )


def _check_party(claims: Mapping[str, Any], client_id: str) -> None:
    """A token for several programs names the one that asked for it. Raises RefusedLoginError."""
    is_shared = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", None if is_shared else client_id) != client_id:
        raise RefusedLoginError("the ID token of the provider is refused: another program asked for it")


def _reason(error: Exception) -> str:
    what_to_do = WHAT_TO_DO.get(error.claim) if isinstance(error, InvalidClaimError | ExpiredTokenError) else None
    return "; ".join(filter(None, (str(error).strip(": ") or type(error).__name__, what_to_do)))


def claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, or by a path such as `realm_access.roles`; None if there is none."""
    found: Any = claims.get(name)
    if found is None and "." in name:
        found = claims
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    return found


def username_in(claims: Mapping[str, Any], name: str) -> Any:
    """The name of the user. Raises RefusedLoginError without it, and for an address that may be of another person."""
    found = claim(claims, name)
    if found is None:
        raise RefusedLoginError(f"the provider sent no claim {name!r}; TIDEGATE_OIDC_USERNAME_CLAIM names it")
    if name == EMAIL and claims.get(VERIFIED) not in (True, "true"):
        raise RefusedLoginError(
            f"the provider has not verified the address {found!r:.120}: its claim {VERIFIED} is not true;"
            " TIDEGATE_OIDC_USERNAME_CLAIM may name another claim"
        )
    return found


def groups_in(claims: Mapping[str, Any], name: str) -> Sequence[str]:
    """The groups that a claim names: a list, or a single text."""
    found = claim(claims, name)
    return [group for group in (found if isinstance(found, list) else [found]) if isinstance(group, str)]
