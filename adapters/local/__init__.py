"""gpt-oss in this process, through transformers' continuous batching.

The life of a request: `backend` checks it and submits it to the engine (`engine`), which creates a
`Row` and passes the prompt to the manager's thread. In each step (`steps`) every row gets a token,
and one call passes all tokens to the event loop. `opening` imports all of this, without what
`importing` leaves out. `model` loads the checkpoint onto the device that `device` selects;
`options` defines the options.
"""
