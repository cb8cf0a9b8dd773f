"""A process with a sandbox of its own, for tests: each line of its input is an operation.

It may run as another user than the tests, and with fewer layers than the machine has.
"""

import asyncio
import base64
import dataclasses
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from server.tools.python import process
from server.tools.python.confinement.command import Layers
from server.tools.python.confinement.probe import Probe
from server.tools.python.process import ProcessSandbox
from server.tools.python.sandbox import OutputImage, SandboxError, SandboxLimits


async def content_of(text: str) -> AsyncIterator[bytes]:
    yield text.encode()


def plain(event: Any) -> dict[str, Any]:
    if isinstance(event, OutputImage):
        return {"media_type": event.media_type, "data": base64.b64encode(event.data).decode()}
    return dataclasses.asdict(event)


async def perform(sandbox: ProcessSandbox, name: str, arguments: dict[str, Any]) -> Any:
    match name:
        case "create":
            await sandbox.create(arguments["session"], SandboxLimits(**arguments["limits"]))
            return str(sandbox._sessions[arguments["session"]].folder)
        case "cell":
            events = sandbox.run(arguments["session"], arguments["code"], arguments["timeout"])
            return [plain(event) async for event in events]
        case "files":
            return [file.path for file in await sandbox.files(arguments["session"])]
        case "read":
            chunks = sandbox.read(arguments["session"], arguments["path"])
            return b"".join([chunk async for chunk in chunks]).decode()
        case "write":
            content = content_of(arguments["content"])
            await sandbox.write(arguments["session"], arguments["path"], content)
        case "close":
            await sandbox.close(arguments["session"])
        case "guard":
            live = sandbox._sessions[arguments["session"]].live
            return live.pid if live else None


def write(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def main(root: Path, layers: Layers) -> None:
    # The layers are given: there is nothing to find out.
    module: Any = process
    module.probe = lambda: Probe(layers, {}, None)
    sandbox = ProcessSandbox(root, layers=layers)
    await sandbox.start()
    write({"problem": sandbox.problem})
    while line := await asyncio.to_thread(sys.stdin.readline):
        operation = json.loads(line)
        try:
            answer = {"value": await perform(sandbox, operation.pop("do"), operation)}
        except SandboxError as error:
            answer = {"error": type(error).__name__}
        write(answer)
    await sandbox.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Layers(**json.loads(sys.argv[2]))))
