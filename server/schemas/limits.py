"""How much one request may hold. No limit is one that a working client meets.

The context of gpt-oss is 131,072 tokens. A limit that names it holds more than one context.
"""

MAX_DEPTH = 128
"""Levels of arrays and objects in a body; orjson writes 254, and answers wrap what was sent."""

MAX_VALUES = 1 << 19
"""Values and names in a body: four contexts of token ids. They are built in 40 ms."""

MAX_NAMES = 1 << 17
"""Members of objects in a body, which take longest: four to each of `MAX_ITEMS` items."""

MAX_CONTAINERS = 1 << 17
"""Arrays and objects in a body: four to each of `MAX_ITEMS` items. An empty one takes 64 bytes."""

MAX_WIDE_BYTES = 1 << 24
"""Bytes of strings with any character beyond ASCII: two million tokens, and up to 64 MiB in memory.

Data in base64 is ASCII, which takes as many bytes in memory as it does in the body.
"""

MAX_ITEMS = 1 << 15
"""Elements of an array of items, messages, content parts or calls.

A message has at least four tokens: the context holds no more of them.
"""

MAX_TOOLS = 4096
"""Tools of a request, those in namespaces included: a declaration has more than 32 tokens."""

MAX_DECLARATION = 1 << 22
"""The size of a request's tools, and of its tool choice and its format, in bytes of JSON.

That is eight contexts of declarations.
"""

MAX_FIELDS = 256
"""Members of an object whose fields a schema names. The largest has 50."""

MAX_LABEL = 1 << 16
"""Characters of a string that is no text to read: an id, a key, a model's name.

Some gateways put whole signatures of several thousand characters into ids.
"""

MAX_LISTED = 64
"""Elements of an array of names, such as `include`."""

MAX_BIASES = 1 << 14
"""Entries of `logit_bias`."""

MAX_IDS = 1 << 18
"""Token ids that `/tokenize` gives and `/detokenize` takes: two contexts."""
