"""The widgets of handwriting."""
