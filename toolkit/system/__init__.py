"""Files and processes of this machine."""
