"""The command line: one file per noun, commands as thin as the queries and the engine allow."""
