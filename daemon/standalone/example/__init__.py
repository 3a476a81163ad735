"""The example pipelines: New York's flights and weather of 2013, arriving day by day."""
