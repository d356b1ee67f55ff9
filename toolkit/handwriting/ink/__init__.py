"""The renderer: from words to strokes, outlines and files."""
