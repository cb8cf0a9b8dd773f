"""What the content of a message, and the output of a tool, may hold, in either API."""

from typing import Literal

from typing_extensions import TypeAliasType, TypedDict

from server.schemas.descriptions import described


@described
class TextPart(TypedDict):
    """Text."""

    type: Literal["input_text", "output_text", "reasoning_text", "summary_text", "text"]
    text: str


@described
class RefusalPart(TypedDict):
    """The text of a refusal, read as text."""

    type: Literal["refusal"]
    refusal: str


@described
class MediaPart(TypedDict):
    """An image, a video or a file. The model reads a note in its place, or the request is refused.

    `--unsupported-input` decides. Other fields are not read, but for a file's name.
    """

    type: Literal["file", "image_url", "input_file", "input_image", "input_video", "video_url"]


Content = TypeAliasType("Content", str | list[TextPart | RefusalPart | MediaPart])
