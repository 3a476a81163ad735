"""The HTTP API: a file per noun with its table of endpoints, from which routes, OpenAPI and tests follow."""
