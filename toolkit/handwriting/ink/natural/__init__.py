"""Writing that varies as that of people does: several forms of a letter, joins and lifts, late bars, drift."""
