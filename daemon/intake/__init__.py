"""From Kafka records to batches of messages."""
