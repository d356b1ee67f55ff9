"""Handwriting: text as a picture of real handwriting. Read ``wire`` first, then ``client``; the gateway renders.

A ``handwritten`` file is what a call returns. `toolkit_gateway.ink` is the renderer.
"""
