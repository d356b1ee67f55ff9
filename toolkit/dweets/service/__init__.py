"""The gateway's side of thing messaging: its rules, without HTTP."""
