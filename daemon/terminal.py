"""Text from outside on a terminal: characters that a terminal would obey are shown as escapes."""


def visible(text: str, kept: str = "\n") -> str:
    """Text with escapes for all characters that cannot be printed, except those `kept`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in kept else char.encode("unicode_escape").decode() for char in text)


def printable(text: str) -> str:
    """Text in one line, with escapes for characters that move the cursor of a terminal or break a line."""
    return visible(text, kept="")
