"""Events on Kafka: payloads, envelopes, dead letters, and the published contract."""
