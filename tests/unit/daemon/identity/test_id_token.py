"""Which ID tokens are believed, also of kinds that no provider in tests makes."""

import base64
import json
import time
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from tidegate.daemon.identity.grants import RefusedLoginError
from tidegate.daemon.identity.id_token import Expected, claim, groups_in, verified

EXPECTED = Expected("https://id.example", "tidegate", "n")
KEY = ECKey.generate_key("P-256", {"kid": "k"})


def claims(**more: Any) -> dict[str, Any]:
    now = int(time.time())
    return {"iss": "https://id.example", "aud": "tidegate", "nonce": "n", "sub": "u", "iat": now, "exp": now + 60, **more}


def public(key: Any = KEY, **more: Any) -> dict[str, Any]:
    return {**key.as_dict(private=False), **more}


def signed(key: Any = KEY, alg: str = "ES256", **more: Any) -> str:
    return jwt.encode({"alg": alg, "kid": "k"}, claims(**more), key, algorithms=[alg])


def test_a_token_for_this_login_is_believed() -> None:
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
    "keys", [[], [{"kty": "lattice"}], [{}], [{"kty": "EC"}], [{"kty": "oct", "k": "YQ", "kid": "k"}], [public(use="enc")]]
)
def test_without_a_key_for_signatures_every_token_is_refused(keys: list[dict[str, Any]]) -> None:
    with pytest.raises(RefusedLoginError):
        verified(signed(), keys, EXPECTED)


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
