"""The harmony format: rendering prompts, parsing sampled tokens, grammars over tokens."""
