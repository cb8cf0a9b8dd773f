"""From a request of either API to a plan: conversation, sampling parameters, grammar."""
