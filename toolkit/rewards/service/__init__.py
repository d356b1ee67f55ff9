"""The gateway's side of mobile rewards: its rules, without HTTP."""
