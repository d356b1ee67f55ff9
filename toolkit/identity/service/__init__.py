"""The gateway's side of mobile identity: its rules, without HTTP."""
