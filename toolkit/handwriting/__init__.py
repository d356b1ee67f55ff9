"""Handwriting: texts as pictures of real handwriting; ``toolkit_gateway.ink`` draws them.

``Style`` has the options that all calls of ``tk.handwriting`` take, ``PRESETS`` some looks.
"""

from typing import TYPE_CHECKING

from toolkit.public_api import lazy_names

if TYPE_CHECKING:
    from toolkit.handwriting.client.style import PRESETS, Style

__all__ = ["PRESETS", "Style"]

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "toolkit.handwriting.client.style"))
