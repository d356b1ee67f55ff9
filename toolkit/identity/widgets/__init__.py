"""The widgets of mobile identity."""
