"""Small pieces of HTML for notebooks. All text is escaped, and nothing is fetched."""

from __future__ import annotations

from html import escape


def paragraph(text: str, strong: bool = False) -> str:
    """Return a line of text as a paragraph."""
    return f"<p>{f'<b>{escape(text)}</b>' if strong else escape(text)}</p>"
