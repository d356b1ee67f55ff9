"""The widgets of mobile rewards."""
