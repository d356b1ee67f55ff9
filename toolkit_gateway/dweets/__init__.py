"""The gateway's side of thing messaging, without HTTP. Read `dweets` first, then `things`, `locks` and `alerts`."""
