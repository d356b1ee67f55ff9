"""Handwriting: texts as pictures of real handwriting; ``toolkit_gateway.ink`` draws them."""
