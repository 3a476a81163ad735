"""A Kafka with two more listeners: one with TLS and a login, one that asks clients for a certificate.

Its users may do what no ACL denies them.
"""

import json
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import ClassVar, NamedTuple

import trustme
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest
from cryptography.hazmat.primitives import serialization

from tests import formatted_storage
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.port import LOOPBACK
from tidegate.schemas.kafka_security import KafkaSecurity

USER, PASSWORD = "alice", "correct-horse-battery"
KEY_PASSWORD = "staple-of-the-key"  # noqa: S105 - of this test
MODULES = "org.apache.kafka.common.security"
LOGIN_MODULES = {
    "scram-sha-512": f"{MODULES}.scram.ScramLoginModule required;",
    "plain": f'{MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    "oauthbearer": f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
}

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS, IDEMPOTENT_WRITE = 3, 4, 8, 10, 12
"""Kinds of resources, and operations, by their numbers in the protocol."""

LITERAL, EVERY, DENY, ALLOW = 3, 2, 2, 3


class Files(NamedTuple):
    """What a client needs, in files."""

    ca: Path
    password: Path
    token: Path
    certificate: Path
    key: Path
    key_password: Path


class SecuredKafka(Kafka):
    """Its certificate names the address 127.0.0.1, and no host. SCRAM-SHA-256 is not enabled."""

    ports_needed: ClassVar[int] = 4
    format_options: ClassVar[tuple[str, ...]] = (f"--add-scram=SCRAM-SHA-512=[name={USER},password={PASSWORD}]",)
    _format = formatted_storage.FORMAT

    def __init__(self, home: Path, cache: Path) -> None:
        super().__init__(home, cache)
        self.home.mkdir(parents=True, exist_ok=True)
        self._ca = trustme.CA()
        self._own = _write_pem(self.home / "broker.pem", self._ca.issue_cert(LOOPBACK))
        self.files = self._write_files()
        self._ports: tuple[int, ...] = ()

    @property
    def login(self) -> str:
        """The address of SASL_SSL."""
        return f"{LOOPBACK}:{self._ports[2]}"

    @property
    def mutual(self) -> str:
        """The address of SSL with client certificates."""
        return f"{LOOPBACK}:{self._ports[3]}"

    @property
    def scram(self) -> KafkaSecurity:
        files = self.files
        return KafkaSecurity(
            security_protocol="SASL_SSL",
            sasl_username=USER,
            sasl_password_file=str(files.password),
            ssl_ca_file=str(files.ca),
        )

    @property
    def certificate(self) -> KafkaSecurity:
        files = self.files
        return KafkaSecurity(
            security_protocol="SSL",
            ssl_ca_file=str(files.ca),
            ssl_certificate_file=str(files.certificate),
            ssl_key_file=str(files.key),
            ssl_key_password_file=str(files.key_password),
        )

    def _write_files(self) -> Files:
        files = Files(*(self.home / name for name in Files._fields))
        client = self._ca.issue_cert("client.example")
        self._ca.cert_pem.write_to_path(files.ca)
        files.password.write_text(f"{PASSWORD}\n")
        files.token.write_text(token(USER))
        files.key_password.write_text(f"{KEY_PASSWORD}\n")
        files.key.write_bytes(_pkcs8(client, serialization.BestAvailableEncryption(KEY_PASSWORD.encode())))
        files.certificate.write_bytes(b"".join(blob.bytes() for blob in client.cert_chain_pems))
        return files

    def _properties(self, data: Path, chosen: tuple[int, ...]) -> dict[str, str]:
        properties = super()._properties(data, chosen[:2])
        if len(chosen) < self.ports_needed:
            return properties
        self._ports = chosen
        more = f"LOGIN://{self.login},MUTUAL://{self.mutual}"
        return {
            **properties,
            "listeners": f"{properties['listeners']},{more}",
            "advertised.listeners": f"{properties['advertised.listeners']},{more}",
            "listener.security.protocol.map": f"{properties['listener.security.protocol.map']},LOGIN:SASL_SSL,MUTUAL:SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.name.login.sasl.enabled.mechanisms": ",".join(LOGIN_MODULES).upper(),
            **{f"listener.name.login.{name}.sasl.jaas.config": module for name, module in LOGIN_MODULES.items()},
            "listener.name.mutual.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._own),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.files.ca),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
        }


async def deny(admin: AIOKafkaAdminClient, kind: int, name: str, operation: int) -> None:
    """Take one operation on a resource from the user, who keeps all others. It counts a moment later."""
    await _add(admin, kind, name, (USER, operation, DENY))
    await _add(admin, kind, name, (USER, EVERY, ALLOW))


async def grant(admin: AIOKafkaAdminClient, kind: int, name: str, operation: int, user: str = USER) -> None:
    """Give one operation on a resource to a user. All others lose every operation on it."""
    await _add(admin, kind, name, (user, operation, ALLOW))


async def _add(admin: AIOKafkaAdminClient, kind: int, name: str, rule: tuple[str, int, int]) -> None:
    user, operation, how = rule
    request = CreateAclsRequest(kind, name, LITERAL, f"User:{user}", "*", operation, how)
    response = await admin._send_to_controller(request)
    assert [code for code, _ in response.creation_responses] == [0]


def token(subject: str) -> str:
    """A token without a signature, which Kafka accepts unless it is given keys."""
    claims = {"sub": subject, "iat": 0, "exp": 4_000_000_000}
    return ".".join(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "none"}, claims)) + "."


def _write_pem(path: Path, certificate: trustme.LeafCert) -> Path:
    chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
    path.write_bytes(_pkcs8(certificate, serialization.NoEncryption()) + chain)
    return path


def _pkcs8(certificate: trustme.LeafCert, encryption: serialization.KeySerializationEncryption) -> bytes:
    """The key in the format that Java reads."""
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
