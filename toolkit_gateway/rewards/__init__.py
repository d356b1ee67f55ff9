"""The gateway's side of mobile rewards, without HTTP."""
