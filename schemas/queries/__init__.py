"""SQL in `.sql` files, each beside the module that gives it types. No SQL is built from strings."""
