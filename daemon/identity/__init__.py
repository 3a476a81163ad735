"""How callers of the API and the pages are known: tokens, sessions of browsers, and login links."""
