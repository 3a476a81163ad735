"""SQL in `.sql` files, each beside the module that gives it types. `sql.py` and `clock.py` combine whole statements."""
