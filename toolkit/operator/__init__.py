"""The operator API: locks, decisions, mails, retention and the clock, for the person who runs the gateway."""
