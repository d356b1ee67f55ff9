"""The operator API: locks, users, decisions, mails and the clock, for the person who runs the gateway."""
