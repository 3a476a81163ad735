"""How callers of the API and the pages are known: tokens, and sessions of browsers.

A session begins by a token, by a link, by OpenID Connect, or by a proxy that names the user.
"""
