"""Earlier turns, as the next prompt repeats them.

Clients send a conversation back in the format of their API. The prompt should repeat it as it was
sampled: with the same tokens, and with the reasoning before each call. Then the engine's prefix
cache is used, and the model continues its own plan.

1. `items` (Responses) and `messages` (Chat) read a history as harmony messages. `content` reads
   the text of both, `hosted_items` the calls of hosted tools, and `unsupported_items` converts
   items that only other servers make. `preambles` finds the messages that come before a call, and
   `tool_names` whom a call is for.
2. `prior_turns` loads the response or the conversation that a request continues.
3. `recall` finds the messages that were sampled up to a call by the call's id. `response_turns`
   and `chat_turns` replace a turn that the client sent by these messages, where the client did not
   change it; `arguments` compares the arguments of calls, and `cited_text` texts with links.
   `tool_states` finds the states of hosted tools by the ids of items.
4. `sealing` encrypts the reasoning that clients store. `sealed_items` and `reasoning_fields`
   decrypt it.
5. `conversation` puts the system message, the developer message and all others together.
   `joining` joins the texts of messages that share one field of an answer.
"""
