"""What was said before, as the next prompt repeats it.

Clients send a conversation back in the words of their API. The model should see it as it was
sampled: the same tokens, with the reasoning that led to a call, so that the engine's prefix cache
hits and the model goes on with its own plan.

1. `items` (Responses) and `messages` (Chat) read a history as harmony messages; `content` reads
   the text of either, `unsupported_items` turns kinds of other servers into kinds of ours.
2. `prior_turns` loads the response or the conversation that a request continues.
3. `recall` finds by a call's id what the model said up to that call; `response_turns` and
   `chat_turns` put it in place of what came back, where that is unchanged (`arguments` compares).
4. `sealing` encrypts reasoning that clients keep; `sealed_items` and `reasoning_fields` open it.
5. `conversation` puts system, developer and other messages together; `joining` says how messages
   that share one field of an answer are joined, and so compared.
"""
