"""Which ID tokens are believed, also of kinds that no provider in tests makes."""

import base64
import json
import time
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from tidegate.daemon.identity.grants import RefusedLoginError
from tidegate.daemon.identity.id_token import Expected, claim, groups_in, username_in, verified

EXPECTED = Expected("https://id.example", "tidegate", "n")
OF_ANOTHER_CURVE: dict[str, Any] = {"kty": "EC", "crv": "BP-256", "x": "AA", "y": "AA"}
STRANGE: list[dict[str, Any]] = [
    OF_ANOTHER_CURVE,
    {**OF_ANOTHER_CURVE, "crv": ["P-256"]},
    {"kty": "OKP", "crv": "Ed1", "x": "AA"},
    {"kty": "RSA"},
]
KEY = ECKey.generate_key("P-256", {"kid": "k"})


def claims(**more: Any) -> dict[str, Any]:
    now = int(time.time())
    return {"iss": "https://id.example", "aud": "tidegate", "nonce": "n", "sub": "u", "iat": now, "exp": now + 60, **more}


def public(key: Any = KEY, **more: Any) -> dict[str, Any]:
    return {**key.as_dict(private=False), **more}


def signed(key: Any = KEY, alg: str = "ES256", **more: Any) -> str:
    return jwt.encode({"alg": alg, "kid": "k"}, claims(**more), key, algorithms=[alg])


def test_a_token_for_this_login_is_believed() -> None:
    assert verified(signed(), [*STRANGE, public()], EXPECTED)["sub"] == "u"
    rsa = RSAKey.generate_key(2048, {"kid": "k"})

    assert verified(signed(), [public()], EXPECTED)["sub"] == "u"
    assert verified(signed(aud=["tidegate", "b"], azp="tidegate"), [public()], EXPECTED)["sub"] == "u"
    for alg in ("RS256", "PS256"):
        assert verified(signed(rsa, alg), [public(), public(rsa, kid="k")][1:], EXPECTED)["sub"] == "u"


def test_a_token_without_a_signature_of_the_provider_is_refused() -> None:
    as_secret = OctKey.import_key(json.dumps(public()), {"kid": "k"})
    plain = ".".join(_text(part) for part in ({"alg": "none"}, claims())) + "."
    tokens = ["", "a", "a.b.c", plain, signed(as_secret, "HS256"), signed()[:-8] + "AAAAAAAA"]

    for token in tokens:
        with pytest.raises(RefusedLoginError, match="the ID token of the provider is refused"):
            verified(token, [public()], EXPECTED)


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [{"kty": "lattice"}],
        [{}],
        [{"kty": "EC"}],
        [OF_ANOTHER_CURVE],
        [{"kty": "oct", "k": "YQ", "kid": "k"}],
        [public(use="enc")],
    ],
)
def test_without_a_key_for_signatures_every_token_is_refused(keys: list[dict[str, Any]]) -> None:
    with pytest.raises(RefusedLoginError):
        verified(signed(), keys, EXPECTED)


@pytest.mark.parametrize("verified", [{}, {"email_verified": False}, {"email_verified": "false"}, {"email_verified": None}])
def test_an_address_that_is_not_verified_is_no_user_name(verified: dict[str, Any]) -> None:
    with pytest.raises(
        RefusedLoginError, match="the address 'a@b': its claim email_verified is not true; TIDEGATE_OIDC_USERNAME"
    ):
        username_in({"email": "a@b", **verified}, "email")


@pytest.mark.parametrize("verified", [True, "true"])
def test_a_verified_address_and_any_other_claim_is_a_user_name(verified: object) -> None:
    assert username_in({"email": "a@b", "email_verified": verified}, "email") == "a@b"
    assert username_in({"upn": "a", "email_verified": False}, "upn") == "a"


def test_a_claim_has_a_name_or_a_path() -> None:
    found = {"a.b": 1, "realm": {"roles": ["x", 2, "y"]}, "one": "z"}

    assert (claim(found, "a.b"), claim(found, "realm.none"), claim(found, "one.none"), claim(found, "none")) == (
        1,
        None,
        None,
        None,
    )
    assert [list(groups_in(found, name)) for name in ("realm.roles", "one", "none", "realm")] == [["x", "y"], ["z"], [], []]


def _text(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
