"""The built-in tool `browser`: search, open, find, and answers that cite a line."""

from demo.skills.browser.cases import case, drill

__all__ = ["case", "drill"]
