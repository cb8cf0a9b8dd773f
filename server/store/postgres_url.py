"""What the URL of a PostgreSQL database may say, and which of two libraries obeys it.

asyncpg reads the URL itself, for it knows `sslmode` and the like. SQLAlchemy's arguments for its
connections, which URLs may have too, are not for the server: asyncpg would send them.
"""

from sqlalchemy.engine import URL

_CACHE_SIZE = "prepared_statement_cache_size"


def check(url: URL) -> URL:
    """Write the URL so that asyncpg ignores none of it. Raises ValueError, which quotes no value.

    asyncpg ignores what the query repeats, and what it says of a place or user given before it.
    """
    query: dict[str, str] = {}
    for key, value in url.query.items():
        if not isinstance(value, str):
            several = ": write host=A:5432,B:5432" if key == "host" else ""
            raise ValueError(f"{key} is given more than once in the URL{several}")
        query[key] = value
    if "prepared_statement_name_func" in query:
        raise ValueError("prepared_statement_name_func is a function, which no URL can hold")
    if not query.get(_CACHE_SIZE, "0").isdecimal():
        raise ValueError(f"{_CACHE_SIZE} is not a number")
    if "ssl" in query:  # SQLAlchemy's name for it
        if "sslmode" in query:
            raise ValueError("ssl and sslmode are names of the same: give one of them")
        query["sslmode"] = query.pop("ssl")
    return _in_one_place(url, query).set(query=query)


def dsn_of(url: URL) -> str:
    """The URL of a PostgreSQL database as asyncpg takes it, with its password."""
    url = url.set(drivername="postgresql").difference_update_query([_CACHE_SIZE])
    return url.render_as_string(hide_password=False)


def dialect_arguments(url: URL) -> dict[str, int]:
    """What the URL says to SQLAlchemy of the connections that it makes."""
    size = url.query.get(_CACHE_SIZE)
    return {} if size is None else {_CACHE_SIZE: int(str(size))}


def _in_one_place(url: URL, query: dict[str, str]) -> URL:
    """Take from the query what asyncpg reads before it only, and put there what it reads there."""
    before = {
        "host": url.host,
        "port": url.port,
        "user": url.username,
        "password": url.password,
        "database": url.database,
        "dbname": url.database or query.get("database"),
    }
    for key, value in before.items():
        if value and key in query:
            raise ValueError(f"{key} is given more than once in the URL")
    if not all(port.isdecimal() for port in query.get("port", "0").split(",")):
        raise ValueError("port is not a number")
    for key in ("database", "dbname"):
        if key in query:
            url = url.set(database=query.pop(key))
    if url.host and "port" in query:
        if "," in url.host or "," in query["port"]:
            raise ValueError("port has to follow each host: write HOST:PORT,HOST:PORT in host=")
        url = url.set(port=int(query.pop("port")))
    elif url.port and not url.host:
        query["port"] = str(url.port)
        url = url._replace(port=None)
    return url
