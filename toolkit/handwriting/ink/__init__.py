"""From shaped words to strokes, outlines and files."""
