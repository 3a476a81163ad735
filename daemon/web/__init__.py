"""The web pages: HTML from the server, which works without JavaScript for reading."""
