"""A provider of OpenID Connect on loopback: it signs real tokens, and checks codes, secrets and PKCE as a real one does.

Each visitor is logged in as `claims` says, without a question. A test makes it misbehave by its attributes.
"""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qsl, urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tidegate.daemon.web.serve import address_of, listen

CLIENT, SECRET = "tidegate", "a secret: %/+"
LIFETIME_S = 300


def new_key() -> ECKey:
    return ECKey.generate_key("P-256", auto_kid=True)


class OidcProvider:
    """`claims` are those of the user, `told` what the userinfo endpoint adds, `lies` replace claims of the ID token.

    `signs_with` signs, `publishes` is what the provider says are its keys. `denies` is an error instead of a code, `refuses` one
    instead of tokens. `is_away`: browsers reach the provider, and Tidegate does not. `keys_at` is the address of its keys.
    `gives_no_id`: it speaks OAuth 2.0, without an ID token.
    """

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.claims: dict[str, Any] = {"sub": "u-1", "preferred_username": "anna", "groups": ["data"]}
        self.told: dict[str, Any] = {"sub": "u-1"}
        self.lies: dict[str, Any] = {}
        self.signs_with = new_key()
        self.publishes = [self.signs_with]
        self.denies = self.refuses = ""
        self.is_away = self.gives_no_id = False
        self.keys_at = f"{issuer}/keys"
        self.requests: list[str] = []
        self._codes: dict[str, Mapping[str, str]] = {}

    def rotate(self) -> None:
        """Sign with another key from now on, and forget the one before."""
        self.signs_with = new_key()
        self.publishes = [self.signs_with]

    async def answer(self, request: Request) -> Response:
        self.requests.append(request.url.path)
        if self.is_away and request.url.path != "/authorize":
            return Response(status_code=503)
        answers = {
            "/.well-known/openid-configuration": self._configuration,
            "/authorize": self._authorize,
            "/token": self._token,
            "/keys": self._keys,
            "/userinfo": self._userinfo,
        }
        return await answers[request.url.path](request)

    async def _configuration(self, _request: Request) -> Response:
        names = {
            "authorization_endpoint": "authorize",
            "token_endpoint": "token",
            "userinfo_endpoint": "userinfo",
        }
        addresses = {name: f"{self.issuer}/{path}" for name, path in names.items()}
        return JSONResponse({"issuer": self.issuer, "jwks_uri": self.keys_at, **addresses})

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        back = {"state": asked["state"], "iss": self.issuer}
        if self.denies:
            back |= {"error": "access_denied", "error_description": self.denies}
        else:
            back["code"] = token_urlsafe()
            self._codes[back["code"]] = asked
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}")

    async def _token(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        asked = self._codes.pop(form["code"], None)
        if self.refuses or asked is None or not _fits(request, form, asked):
            return JSONResponse({"error": "invalid_grant", "error_description": self.refuses or "unknown code"}, 400)
        tokens = {"access_token": "access", "token_type": "Bearer"}
        return JSONResponse(tokens if self.gives_no_id else {**tokens, "id_token": self._id_token(asked)})

    def _id_token(self, asked: Mapping[str, str]) -> str:
        now = int(time.time())
        times = {"iat": now, "exp": now + LIFETIME_S}
        claims = {"iss": self.issuer, "aud": asked["client_id"], "nonce": asked["nonce"], **times, **self.claims, **self.lies}
        return jwt.encode({"alg": "ES256", "kid": self.signs_with.kid}, claims, self.signs_with)

    async def _keys(self, _request: Request) -> Response:
        strange = {"kty": "lattice", "use": "sig", "kid": "strange"}
        return JSONResponse({"keys": [strange, *KeySet(list(self.publishes)).as_dict(private=False)["keys"]]})

    async def _userinfo(self, request: Request) -> Response:
        assert request.headers["authorization"] == "Bearer access"
        return JSONResponse(self.told)


def _fits(request: Request, form: Mapping[str, str], asked: Mapping[str, str]) -> bool:
    """Whether a request for tokens is from the client, and about the login that began with the code."""
    challenge = base64.urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
    login = base64.b64encode(b"tidegate:a%20secret%3A%20%25%2F%2B").decode()
    return (challenge, form["redirect_uri"], request.headers.get("authorization")) == (
        asked["code_challenge"],
        asked["redirect_uri"],
        f"Basic {login}",
    )


@asynccontextmanager
async def oidc_provider() -> AsyncIterator[OidcProvider]:
    """A provider that serves."""
    with listen("127.0.0.1", 0) as listening:
        provider = OidcProvider(address_of(listening))
        app = Starlette(routes=[Route("/{path:path}", provider.answer, methods=["GET", "POST"])])
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
        task = asyncio.create_task(server.serve([listening]))
        yield provider
        server.should_exit = True
        await task
