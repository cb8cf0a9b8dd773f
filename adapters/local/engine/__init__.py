"""The engine: the thread that runs continuous batching, its batches and its cache.

`batching` limits the size of a step, `chunks` fits steps with prompts to the other requests,
`cache` shares pages between requests. `warmup` runs the first steps, `recovery` continues after a
failed one.
"""
