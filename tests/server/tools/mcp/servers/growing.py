"""A program of an older protocol: each call adds a tool, of which it tells the client.

What it does not know is an error, or, as the first argument says, `ends` the program or gets no
answer (`silent`).
"""

import json
import sys
from typing import Any

tools = ["first"]
of_unknown = sys.argv[1:2]


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def result_of(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        server = {"name": "growing", "version": "1"}
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}
    if method == "tools/call":
        tools.append("second")
        send(method="notifications/tools/list_changed")
        return {"content": []}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = result_of(request["method"], request.get("params", {}))
        if result is None and of_unknown == ["ends"]:
            sys.exit(1)
        if result is None and of_unknown == ["silent"]:
            continue
        unknown = {"error": {"code": -32601, "message": "Method not found"}}
        send(id=request["id"], **({"result": result} if result else unknown))
