"""Writing that varies as a person's does: several forms of a letter, joins and lifts, bars drawn later, drift."""
