"""Events on Kafka: payloads, envelopes and their published contract."""
