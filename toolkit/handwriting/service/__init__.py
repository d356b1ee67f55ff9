"""The gateway's side of handwriting: its rules, without HTTP."""
