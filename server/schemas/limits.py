"""Limits on the size of one request. A client that works correctly does not reach them.

The context of gpt-oss has 131,072 tokens. Limits that are explained by contexts leave room for more
than one.
"""

MAX_DEPTH = 128
"""Levels of arrays and objects in a body. orjson writes 254; answers add levels of their own."""

MAX_VALUES = 1 << 19
"""Values and names in a body: four contexts of token ids. Parsing them takes some 40 ms."""

MAX_NAMES = 1 << 17
"""Members of objects in a body, the slowest to parse: four for each of `MAX_ITEMS` items."""

MAX_CONTAINERS = 1 << 17
"""Arrays and objects in a body: four for each of `MAX_ITEMS` items. Each has 64 bytes or more."""

MAX_WIDE_BYTES = 1 << 24
"""Bytes of strings that are not ASCII: some two million tokens, and up to 64 MiB in memory.

ASCII strings, such as data in base64, are not counted: they need no more memory than the body.
"""

MAX_ITEMS = 1 << 15
"""Elements of an array of items, messages, content parts or calls.

A message has at least four tokens, so a context has no more messages.
"""

MAX_HISTORY = 2 * MAX_ITEMS
"""Items of a conversation that a request continues, with the request's own.

A context has less than half of them. Conversations that are truncated may have more than fits.
"""

MAX_CONVERSATION_BYTES = 1 << 26
"""Bytes of JSON of a conversation to which more may be added. Each request reads all of it."""

MAX_TOOLS = 4096
"""Tools of a request, with those in namespaces. A declaration has more than 32 tokens."""

MAX_DECLARATION = 1 << 22
"""Bytes of JSON of a request's tools, of its tool choice and of its format.

These are eight contexts of declarations.
"""

MAX_FIELDS = 256
"""Members of an object that has a schema. The largest schema has some 50 fields."""

MAX_LABEL = 1 << 16
"""Characters of a string that is not text for the model: an id, a key, the name of a model.

Some gateways put signatures of several thousand characters into ids.
"""

MAX_CONTENT_TYPE = 1024
"""Characters of a Content-Type whose parameters are read, of a request or of a page.

The time to parse them grows with the square of their size: 64 KB would take a third of a second of
the event loop, or several.
"""

MAX_LISTED = 64
"""Elements of an array of names, such as `include`."""

MAX_BIASES = 1024
"""Entries of `logit_bias`: what vLLM 0.32 has room for on a GPU. More would end its engine."""

MAX_IDS = 1 << 18
"""Token ids that `/tokenize` returns and `/detokenize` accepts: two contexts."""
