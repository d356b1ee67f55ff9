"""The gateway's side of mobile identity, without HTTP."""
