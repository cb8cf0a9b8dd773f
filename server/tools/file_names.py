"""Names of files on the disk."""


def is_utf8(name: str) -> bool:
    """Whether a name that Python read is UTF-8: bytes that are not become lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
