"""What `tidegate doctor` asks servers other than Postgres, from the host on which it runs: Kafka and Spark."""
