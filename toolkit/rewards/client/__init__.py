"""The client of mobile rewards."""
