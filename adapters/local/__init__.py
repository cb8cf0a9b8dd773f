"""gpt-oss in this process, through transformers' continuous batching.

The life of a request: `backend` checks it and submits it to `engine`, which creates a `Row` and
passes the prompt to the manager's thread. In each step (`step`) every row gets a token
(`step_sampler`, with `sampling` and `masks`), and one call passes all tokens to the event loop.
`loading` creates the model (`device`, `weights`, `precision`, `attention` with `products`,
`padded` and `spans`, `experts`, `kernels`, `output_layer`), `cache` its pages. `chunks` fits steps
with prompts to the other requests. `opening` imports all of this, without what `imports` leaves
out.
`batching` limits the size of a step, `warmup` runs the first steps, `recovery` continues after a
failed one, `options` defines the options.
"""
