"""How much of the engine's time and memory one grammar may take."""

from llguidance import LLParserLimits

# A step waits for its slowest mask. The limits of a step allow 5 to 40 ms; ordinary schemas need a
# tenth. Objects with many optional properties fail earlier, at llguidance's default of 2,000 items
# a row. A state of a lexer takes up to 0.7 kB, all of them 100 MB. Ordinary schemas and sets of
# tools need at most 2,500 states; a text with a limited length needs 7 for each of its characters.
LIMITS = LLParserLimits(
    step_max_items=5_000,
    step_lexer_fuel=100_000,
    max_lexer_states=150_000,
    verbose_errors=False,
)
