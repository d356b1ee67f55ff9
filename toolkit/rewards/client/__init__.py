"""The client of mobile rewards: what a person calls in a notebook."""
