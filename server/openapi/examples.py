"""Examples of requests and of answers, by the name of the operation."""

from collections.abc import Mapping
from typing import Any

MODEL = "gpt-oss-20b"
WEATHER = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
CITY = {
    "name": "city",
    "schema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "country": {"type": "string"}},
        "required": ["name", "country"],
        "additionalProperties": False,
    },
    "strict": True,
}
CALL = {
    "type": "function_call",
    "call_id": "call_1",
    "name": "get_weather",
    "arguments": '{"city":"Paris"}',
}
QUESTION = {"role": "user", "content": "What is the weather in Paris?"}

REQUESTS: Mapping[str, Mapping[str, Any]] = {
    "createResponse": {
        "text": {"model": MODEL, "input": "What is the capital of France?"},
        "stream": {
            "model": MODEL,
            "instructions": "Answer in one word.",
            "input": [{"role": "user", "content": "What is the capital of France?"}],
            "reasoning": {"effort": "low"},
            "max_output_tokens": 512,
            "stream": True,
        },
        "tool": {
            "model": MODEL,
            "input": [QUESTION],
            "tools": [{"type": "function", **WEATHER}],
            "tool_choice": "auto",
        },
        "tool result": {
            "model": MODEL,
            "input": [
                QUESTION,
                CALL,
                {"type": "function_call_output", "call_id": "call_1", "output": "18 °C"},
            ],
            "tools": [{"type": "function", **WEATHER}],
            "store": False,
        },
        "code interpreter": {
            "model": MODEL,
            "input": "What is the 100th prime number?",
            "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}],
            "include": ["code_interpreter_call.outputs"],
            "max_tool_calls": 8,
        },
        "web search": {
            "model": MODEL,
            "input": "Who maintains llguidance?",
            "tools": [
                {
                    "type": "web_search",
                    "filters": {"allowed_domains": ["github.com"]},
                    "search_context_size": "low",
                }
            ],
            "tool_choice": {"type": "web_search"},
        },
        "MCP server": {
            "model": MODEL,
            "input": "Which transports does MCP have?",
            "tools": [
                {
                    "type": "mcp",
                    "server_label": "docs",
                    "server_url": "https://mcp.example/mcp",
                    "allowed_tools": ["search"],
                    "require_approval": "never",
                }
            ],
            "tool_choice": {"type": "mcp", "server_label": "docs", "name": "search"},
        },
        "JSON": {
            "model": MODEL,
            "input": "Name a city.",
            "text": {"format": {"type": "json_schema", **CITY}},
        },
    },
    "countInputTokens": {"text": {"model": MODEL, "input": "What is the capital of France?"}},
    "renderResponse": {"text": {"model": MODEL, "input": "What is the capital of France?"}},
    "compactResponse": {
        "conversation": {
            "model": MODEL,
            "input": [
                {"role": "user", "content": "What is the capital of France?"},
                {"role": "assistant", "content": "Paris."},
            ],
        }
    },
    "createConversation": {
        "items": {
            "items": [{"type": "message", "role": "user", "content": "Hello."}],
            "metadata": {"topic": "demo"},
        }
    },
    "updateConversation": {"metadata": {"metadata": {"topic": "other"}}},
    "createItems": {
        "message": {"items": [{"type": "message", "role": "user", "content": "Hello again."}]}
    },
    "createChatCompletion": {
        "text": {
            "model": MODEL,
            "messages": [
                {"role": "system", "content": "Answer in one word."},
                {"role": "user", "content": "What is the capital of France?"},
            ],
        },
        "stream": {
            "model": MODEL,
            "messages": [{"role": "user", "content": "What is the capital of France?"}],
            "stream": True,
            "stream_options": {"include_usage": True},
        },
        "tool": {
            "model": MODEL,
            "messages": [QUESTION],
            "tools": [{"type": "function", "function": WEATHER}],
        },
        "hosted tools": {
            "model": MODEL,
            "messages": [QUESTION],
            "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}],
            "web_search_options": {"search_context_size": "low"},
        },
        "tool result": {
            "model": MODEL,
            "messages": [
                QUESTION,
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "get_weather", "arguments": CALL["arguments"]},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": "18 °C"},
            ],
        },
        "JSON": {
            "model": MODEL,
            "messages": [{"role": "user", "content": "Name a city."}],
            "response_format": {"type": "json_schema", "json_schema": CITY},
        },
    },
    "renderChatCompletion": {
        "text": {"model": MODEL, "messages": [{"role": "user", "content": "Hello."}]}
    },
    "updateChatCompletion": {"metadata": {"metadata": {"topic": "other"}}},
    "createCompletion": {
        "text": {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 64},
        "token ids": {"model": MODEL, "prompt": [[12845, 5304, 261, 1058]], "max_tokens": 64},
    },
    "tokenize": {"text": {"prompt": "Hello, world!", "return_token_strs": True}},
    "detokenize": {"ids": {"tokens": [13225, 11, 2375, 0]}},
    "createContainer": {
        "named": {"name": "analysis"},
        "limits": {
            "name": "analysis",
            "memory_limit": "4g",
            "expires_after": {"anchor": "last_active_at", "minutes": 10},
        },
    },
    "createContainerFile": {"copy": {"file_id": "file-1"}},
}

ANSWERS: Mapping[str, Any] = {
    "createResponse": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1760000000,
        "completed_at": 1760000001,
        "status": "completed",
        "incomplete_details": None,
        "error": None,
        "model": MODEL,
        "previous_response_id": None,
        "instructions": None,
        "output": [
            {
                "type": "reasoning",
                "id": "rs_1",
                "status": "completed",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "A simple question."}],
            },
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [
                    {"type": "output_text", "text": "Paris.", "annotations": [], "logprobs": []}
                ],
                "phase": "final_answer",
            },
        ],
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "max_tool_calls": None,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "reasoning": {"effort": "medium", "summary": None},
        "temperature": 1.0,
        "top_p": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "top_logprobs": 0,
        "max_output_tokens": None,
        "truncation": "disabled",
        "usage": {
            "input_tokens": 74,
            "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 0},
            "output_tokens": 15,
            "output_tokens_details": {"reasoning_tokens": 7},
            "total_tokens": 89,
        },
        "store": True,
        "background": False,
        "service_tier": "default",
        "metadata": {},
        "safety_identifier": None,
        "prompt_cache_key": None,
    },
    "createChatCompletion": {
        "id": "chatcmpl_1",
        "object": "chat.completion",
        "created": 1760000000,
        "model": MODEL,
        "system_fingerprint": "fp_1",
        "service_tier": "default",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Paris.",
                    "refusal": None,
                    "annotations": [],
                    "reasoning": "A simple question.",
                    "reasoning_details": [
                        {
                            "type": "reasoning.text",
                            "text": "A simple question.",
                            "signature": None,
                            "id": None,
                            "format": "unknown",
                            "index": 0,
                        }
                    ],
                },
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 74,
            "completion_tokens": 15,
            "total_tokens": 89,
            "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 7,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        },
    },
    "createConversation": {
        "id": "conv_1",
        "object": "conversation",
        "created_at": 1760000000,
        "metadata": {"topic": "demo"},
    },
    "countInputTokens": {"object": "response.input_tokens", "input_tokens": 74},
    "tokenize": {
        "count": 4,
        "tokens": [13225, 11, 2375, 0],
        "token_strs": ["Hello", ",", " world", "!"],
        "max_model_len": 131072,
    },
    "detokenize": {"prompt": "Hello, world!"},
    "retrieveHealth": {"status": "ok"},
    "retrieveReadiness": {"status": "ready", "reasons": [], "tools": {"python": "on"}},
}

STREAMS: Mapping[str, str] = {
    "createResponse": """\
event: response.created
data: {"type":"response.created","response":{…},"sequence_number":0}

event: response.output_text.delta
data: {"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,\
"delta":"Paris","logprobs":[],"sequence_number":9}

data: [DONE]
""",
    "createChatCompletion": """\
data: {"id":"chatcmpl_1","object":"chat.completion.chunk","created":1760000000,\
"model":"gpt-oss-20b","system_fingerprint":"fp_1","service_tier":"default",\
"choices":[{"index":0,"delta":{"content":"Paris"},"logprobs":null,"finish_reason":null}]}

data: [DONE]
""",
}
