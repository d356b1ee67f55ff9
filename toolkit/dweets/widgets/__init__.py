"""The widgets of thing messaging."""
