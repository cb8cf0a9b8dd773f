"""The harmony format: rendering prompts, parsing sampled tokens, grammars over tokens.

- `messages` and `events` are the data: conversations, and what the parser reports.
- `render` turns a conversation into the token ids of a prompt.
- `parser` turns sampled token ids into messages; `headers` reads their headers.
- `grammar` writes the llguidance grammar of a request; `schemas` checks its JSON Schemas.
- `tokenizer` and `vocab` convert text to token ids and back.

Nothing here does I/O, except that `vocab` reads the packaged vocabulary.
"""
