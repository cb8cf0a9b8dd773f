"""The official library as oracle: our messages handed to it, its tokens handed back."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harmony import vocab
from harmony.messages import DeveloperContent, Message, SystemContent, ToolNamespace


class Library:
    """openai-harmony, asked in our terms."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.encoding = module.load_harmony_encoding(module.HarmonyEncodingName.HARMONY_GPT_OSS)

    def render(self, messages: Iterable[Message], *, drop_analysis: bool = False) -> list[int]:
        """The prompt for the assistant's next message."""
        config = self.module.RenderConversationConfig(auto_drop_analysis=drop_analysis)
        conversation = self.module.Conversation.from_messages(map(self.message, messages))
        ids: list[int] = self.encoding.render_conversation_for_completion(
            conversation, self.module.Role.ASSISTANT, config=config
        )
        return ids

    def text(self, messages: Iterable[Message]) -> str:
        """The prompt in which the library has dropped what reasoning it drops."""
        text: str = self.encoding.decode(self.render(messages, drop_analysis=True))
        return text

    def render_message(self, message: Message) -> list[int]:
        ids: list[int] = self.encoding.render(self.message(message))
        return ids

    def type_of(self, schema: dict[str, Any]) -> str:
        """The type that the library declares for a function's parameters."""
        tool = self.module.ToolDescription.new("f", "", schema)
        content = self.module.DeveloperContent.new().with_function_tools([tool])
        message = self.module.Message.from_role_and_content(self.module.Role.DEVELOPER, content)
        text: str = self.encoding.decode(self.encoding.render(message))
        _, _, declared = text.partition("type f = (_: ")
        return declared.removesuffix(") => any;\n\n} // namespace functions<|end|>")

    def message(self, message: Message) -> Any:
        author = self.module.Author(
            role=self.module.Role(message.author.role.value), name=message.author.name
        )
        made = self.module.Message.from_author_and_content(author, self._content(message.content))
        made.channel = None if message.channel is None else message.channel.value
        made.recipient = message.recipient
        made.content_type = message.content_type
        return made

    def _content(self, content: str | SystemContent | DeveloperContent) -> Any:
        match content:
            case SystemContent():
                return self.module.SystemContent(
                    model_identity=content.identity,
                    knowledge_cutoff=content.knowledge_cutoff,
                    conversation_start_date=content.start_date,
                    reasoning_effort=content.effort and content.effort.value.capitalize(),
                    channel_config=self.module.ChannelConfig.require_channels(
                        [channel.value for channel in content.channels]
                    ),
                    tools=self._namespaces(content.tools),
                )
            case DeveloperContent():
                return self.module.DeveloperContent(
                    instructions=content.instructions, tools=self._namespaces(content.tools)
                )
            case _:
                return content

    def _namespaces(self, namespaces: Iterable[ToolNamespace]) -> Any:
        return {
            namespace.name: self.module.ToolNamespaceConfig(
                name=namespace.name,
                description=namespace.description,
                tools=[
                    self.module.ToolDescription.new(
                        tool.name, tool.description or "", tool.parameters
                    )
                    for tool in namespace.tools
                ],
            )
            for namespace in namespaces
        } or None


@pytest.fixture(scope="session")
def ranks_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the ranks file unpacked."""
    folder = tmp_path_factory.mktemp("vocabulary")
    (folder / "o200k_base.tiktoken").write_bytes(vocab.ranks_file())
    return folder


@pytest.fixture(scope="session")
def library(ranks_folder: Path) -> Iterator[Library]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "TIKTOKEN_ENCODINGS_BASE", str(ranks_folder))
        import openai_harmony

        yield Library(openai_harmony)
