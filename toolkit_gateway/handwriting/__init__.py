"""The gateway's side of handwriting, without HTTP."""
