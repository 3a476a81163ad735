"""A file per page: what it reads, and what its forms do."""
