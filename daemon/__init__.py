"""The imperative shell: processes, clocks, sockets, transactions, Spark."""
