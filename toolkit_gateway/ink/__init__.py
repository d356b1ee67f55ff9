"""The renderer: converts words to strokes, strokes to outlines, and outlines to files."""
