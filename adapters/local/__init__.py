"""gpt-oss in this process, through transformers' continuous batching.

The life of a request: `backend` admits it and makes a `Row`; `engine` hands the prompt to the
manager's thread; in each step (`step`) every row gets its token (`step_sampler`, by `sampling` and
`masks`), and one call wakes the event loop with all of them. `loading` makes the model (`device`,
`weights`, `attention`, `kernels`), `cache` the pages, `batching` says how much is in a step,
`warmup` runs the first steps, `recovery` goes on after one that fails, `options` says what can be
set.
"""
