"""The partition of a key: that of Kafka's Java client, so that all producers agree about it.

aiokafka has the same function, which takes twice as long.
"""

from functools import lru_cache
from itertools import count
from struct import iter_unpack

SEED = 0x9747B28C
FACTOR = 0x5BD1E995
UINT32 = 0xFFFFFFFF

LONGEST_KEPT = 1024
"""The hashes of longer keys are not kept, as the cache would keep the keys, too: dead letters have the keys of any producer."""

_keyless = count()


def partition_of(key: bytes | None, partitions: int) -> int:
    """The partition of a key; records without a key go to the partitions by turns."""
    if key is None:
        return next(_keyless) % partitions
    return (_kept_hash(key) if len(key) <= LONGEST_KEPT else _positive_hash(key)) % partitions


def _positive_hash(key: bytes) -> int:
    return murmur2(key) & 0x7FFFFFFF


_kept_hash = lru_cache(maxsize=65536)(_positive_hash)


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 with the seed of Kafka."""
    digest, whole = SEED ^ len(data), len(data) & ~3
    for (word,) in iter_unpack("<I", data[:whole]):
        mixed = word * FACTOR & UINT32
        digest = (digest * FACTOR ^ (mixed ^ mixed >> 24) * FACTOR) & UINT32
    if whole < len(data):
        digest = (digest ^ int.from_bytes(data[whole:], "little")) * FACTOR & UINT32
    digest = (digest ^ digest >> 13) * FACTOR & UINT32
    return digest ^ digest >> 15
